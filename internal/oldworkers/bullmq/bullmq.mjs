// A producer and a worker of BullMQ, for tests of cutovers.
//
//   node bullmq.mjs produce   reads lines of ID STATE, adds each, answers with a line
//   node bullmq.mjs work N    works on N at a time until SIGTERM
//
// OLD_PORT is Redis' port; BULLMQ names the package, "bullmq" or "bullmq5"; RUN_LOG is
// the file to which a job that is done appends its id.
import { appendFileSync } from "node:fs";
import { createInterface } from "node:readline";

const { Queue, Worker } = await import(process.env.BULLMQ);
const connection = { host: "127.0.0.1", port: Number(process.env.OLD_PORT), maxRetriesPerRequest: null };
const [mode, threads] = process.argv.slice(2);

async function produce() {
  const queue = new Queue("mail", { connection });
  for await (const line of createInterface({ input: process.stdin })) {
    const [jobId, state] = line.split(" ");
    const options = { jobId, attempts: 5, backoff: { type: "fixed", delay: 3_600_000 } };
    if (state === "later") options.delay = 86_400_000;
    if (state === "dead") options.attempts = 1;
    const what = { retrying: "fail", dead: "fail", hang: "hang" }[state] ?? "ok";
    await queue.add("send", { do: what }, options);
    console.log(jobId);
  }
  await queue.close();
}

async function run(job) {
  if (job.data.do === "fail") throw new Error("boom");
  if (job.data.do === "hang") await new Promise(() => {});
  await new Promise((done) => setTimeout(done, 10));
  appendFileSync(process.env.RUN_LOG, `${job.id}\n`);
}

if (mode === "produce") {
  await produce();
} else {
  const worker = new Worker("mail", run, { connection, concurrency: Number(threads), name: `w${process.pid}` });
  process.on("SIGTERM", async () => {
    await worker.close();
    process.exit(0);
  });
}
