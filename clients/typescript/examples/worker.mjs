// Sends the mails, by a relay that knows a key for a day.
import { Client, NotHappened, Permanent, Worker, keyed } from "daybook-client";

/** Stands for a call like fetch(url, { headers: { "Idempotency-Key": key }, signal }). */
async function relay(to, { key, signal }) {
  signal.throwIfAborted();
  // Certainly not: any other error leaves the effect open.
  if (to.endsWith(".invalid")) throw new NotHappened("the relay said no");
  return { mailed: to, key };
}

const worker = new Worker(new Client(), { queues: ["letters"], concurrency: 5 });
worker.handle("welcome", (claim) => {
  const { to } = claim.args;
  if (!to.includes("@")) throw new Permanent(`no address: ${to}`); // trying again can't cure it
  return claim.effect("mail", keyed({ days: 1 }), (call) => relay(to, call));
});
await worker.run({ drain: process.argv.includes("--drain") });
