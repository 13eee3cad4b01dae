// BullMQ, with the settings with which it was fastest.
import { Queue, Worker } from "bullmq";
import { inBulk, kind, main, queue } from "./common.mjs";

const handlers = 100;

main(async ({ place }) => {
  const [host, port] = place.split(":");
  const connection = { host, port: Number(port), maxRetriesPerRequest: null };
  const jobs = new Queue(queue, { connection });
  await jobs.waitUntilReady();
  return {
    migrate: async () => {},
    enqueue: (args) => jobs.add(kind, args),
    enqueueMany: (n, args) =>
      inBulk(n, (size) => jobs.addBulk(Array.from({ length: size }, () => ({ name: kind, data: args })))),
    run: async (handle) => {
      const worker = new Worker(queue, async (job) => { handle(job.data); }, { connection, concurrency: handlers });
      await worker.waitUntilReady();
    },
    left: async () => {
      const counts = await jobs.getJobCounts("wait", "active", "prioritized", "delayed", "failed");
      return Object.values(counts).reduce((sum, n) => sum + n, 0);
    },
  };
});
