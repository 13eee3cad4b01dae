// The programs of docs/cutover/bullmq.md: what stands between "guide:" and "guide: end" is in
// the guide word for word.
//
//   node guide.mjs old|deploy|double   puts one job in
//   node guide.mjs serve               works until SIGTERM, and writes the ids of jobs it
//                                      does into the file RUNS
//
// OLD_URL is Redis; BULLMQ names the package, "bullmq" or "bullmq5".
import { appendFileSync } from "node:fs";

const { Queue, Worker } = await import(process.env.BULLMQ ?? "bullmq");
const { hostname, port } = new URL(process.env.OLD_URL);
const connection = { host: hostname, port: Number(port), maxRetriesPerRequest: null };
const queue = new Queue("mail", { connection });
const handle = (job) => appendFileSync(process.env.RUNS, `${job.id}\n`);

const modes = {
  async old() {
    await queue.add("welcome", { user: 7 });
  },

  async deploy() {
    // guide: Switched by deploy
    // was: await queue.add("welcome", { user: 7 });
    const answer = await fetch(`${process.env.DAYBOOK}/v1/jobs`, {
      method: "POST",
      headers: { authorization: `Bearer ${process.env.DAYBOOK_TOKEN}`, "content-type": "application/json" },
      body: JSON.stringify({ queue: "mail", kind: "welcome", args: { user: 7 } }),
    });
    if (!answer.ok) throw new Error(await answer.text());
    // guide: end
  },

  async double() {
    // guide: Written to both
    const jobId = crypto.randomUUID();
    const answer = await fetch(`${process.env.DAYBOOK}/v1/jobs`, {
      method: "POST",
      headers: { authorization: `Bearer ${process.env.DAYBOOK_TOKEN}`, "content-type": "application/json" },
      body: JSON.stringify({ queue: "mail", kind: "welcome", args: { user: 7 }, key: jobId }),
    });
    if (!answer.ok) throw new Error(await answer.text());
    await queue.add("welcome", { user: 7 }, { jobId });
    // guide: end
  },

  async serve() {
    // guide: Old handlers that still may start
    const theOlds = ["still", "finished", "returned"];
    const worker = new Worker("mail", async (job) => {
      const asked = new URL(`/v1/cutovers/mail/items?id=${encodeURIComponent(job.id)}`, process.env.DAYBOOK);
      const answer = await fetch(asked, { headers: { authorization: `Bearer ${process.env.DAYBOOK_TOKEN}` } });
      if (!answer.ok) throw new Error(await answer.text()); // nobody knows whose it is
      const { items } = await answer.json();
      if (items.some((item) => !theOlds.includes(item.term))) return; // the book has it
      return handle(job);
    }, { connection });
    // guide: end
    worker.on("failed", (job, error) => console.error(job.id, error));
    await new Promise((done) => process.on("SIGTERM", done));
    await worker.close();
  },
};

await modes[process.argv[2]]();
process.exit(0);
