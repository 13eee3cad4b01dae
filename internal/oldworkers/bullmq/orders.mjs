// Producer and worker of a BullMQ queue, for moving whole queues.
//
//   node orders.mjs orders         reads lines of [number, how, seconds]
//   node orders.mjs serve [-c N]   works on those, N at a time (3), until SIGTERM
//
// OLD_URL is Redis; BULLMQ names the package, "bullmq" or "bullmq5"; a job writes how far
// it came into the file RUNS. A how of "id=X" gives the job that id.
import { appendFileSync, existsSync } from "node:fs";
import { createInterface } from "node:readline";

const { Queue, Worker } = await import(process.env.BULLMQ ?? "bullmq");
const { hostname, port } = new URL(process.env.OLD_URL);
const connection = { host: hostname, port: Number(port), maxRetriesPerRequest: null };
const [mode, , threads = "3"] = process.argv.slice(2);

async function produce() {
  const queue = new Queue("mail", { connection });
  for await (const line of createInterface({ input: process.stdin })) {
    const [number, how, seconds] = JSON.parse(line);
    const options = { delay: seconds * 1000, attempts: 5, backoff: { type: "fixed", delay: 3_600_000 } };
    if (how.startsWith("id=")) options.jobId = how.slice(3);
    await queue.add("MailJob", [number, how], options);
  }
  await queue.close();
}

const say = (what, number) => appendFileSync(process.env.RUNS, `${what} ${number}\n`);

async function run({ data: [number, how] }) {
  say("start", number);
  await new Promise((done) => setTimeout(done, how === "slow" ? 600_000 : process.env.WORK * 1000));
  while (how === "late" && !existsSync(`${process.env.RUNS}.go`)) await new Promise((done) => setTimeout(done, 100));
  if (how === "fail") throw new Error("boom");
  say("done", number);
}

if (mode === "orders") {
  await produce();
} else {
  const worker = new Worker("mail", run, { connection, concurrency: Number(threads), name: `w${process.pid}` });
  process.on("SIGTERM", async () => {
    await worker.close();
    process.exit(0);
  });
}
