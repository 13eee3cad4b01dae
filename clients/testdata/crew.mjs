// Some workers in one process: each a session of its own. Says each job that it runs.
import { Client, Worker } from "daybook-client";

const [queue, many] = process.argv.slice(2);
const client = new Client();
const log = { info() {}, warn: console.error, error: console.error };
const workers = Array.from({ length: Number(many) }, (_, n) =>
  new Worker(client, { queues: [queue], name: `node-${n}`, concurrency: 2, log }).handle(null, (claim) => {
    process.stdout.write(`ran ${claim.id}\n`);
    return claim.args;
  }),
);
await Promise.all(workers.map((worker) => worker.run()));
