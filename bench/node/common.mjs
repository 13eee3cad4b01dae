// What every peer for Node does alike, as peer.go does for Go. A peer is an
// object with migrate(), enqueue(args), enqueueMany(n, args), run(handle), left();
// its program gets one order, as JSON, and answers one report.
import { readFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";

export const queue = "mail";
export const kind = "welcome";
export const silent = { debug() {}, info() {}, warn() {}, error() {} };

const bulk = 1000; // jobs a call of bulk enqueue
const clients = 8; // that enqueue one by one
const warm = 10; // jobs before latency counts
const rate = 200; // jobs a second while latency counts
const patience = 30_000; // ms that a worker may do nothing

// inBulk cuts n jobs into calls.
export async function inBulk(n, call) {
  for (let left = n; left > 0; left -= bulk) await call(Math.min(bulk, left));
}

// timed runs what counts, which tells how many jobs it put through.
async function timed(fn) {
  const wall = performance.now(), cpu = process.cpuUsage();
  const n = await fn();
  const took = performance.now() - wall, used = process.cpuUsage(cpu);
  return { per_second: n / (took / 1000), micros: (used.user + used.system) / n };
}

// single enqueues one by one from several clients until the time is over.
async function single(peer, order) {
  const until = performance.now() + order.seconds * 1000;
  const args = JSON.parse(order.args);
  let done = 0;
  const client = async () => {
    for (; performance.now() < until; done++) await peer.enqueue(args);
  };
  await Promise.all(Array.from({ length: clients }, client));
  return done;
}

// begun waits until so many handlers have begun, and gives up when none does.
async function begun(count, jobs) {
  for (let before = -1, since = performance.now(); count() < jobs; await sleep(2)) {
    const now = count();
    if (now !== before) [before, since] = [now, performance.now()];
    if (performance.now() - since > patience) throw new Error(`no more than ${now} of ${jobs} handlers began`);
  }
}

// work runs what is preloaded, until the database has it all as completed.
async function work(peer, order) {
  let handled = 0;
  await peer.run(() => handled++);
  await begun(() => handled, order.jobs);
  for (const until = performance.now() + patience; ; await sleep(2)) {
    const left = await peer.left();
    if (left === 0) return order.jobs;
    if (performance.now() > until) throw new Error(`${left} jobs have run and are not completed`);
  }
}

// latency measures how soon after enqueue's return, and its call, a handler begins.
async function latency(peer, order) {
  const asked = [], sent = [], began = [], pad = "x".repeat(80);
  let warmed = 0;
  await peer.run(({ n }) => {
    if (n < 0) warmed++;
    else began[n] = performance.now();
  });
  for (let i = 1; i <= warm; i++) {
    await peer.enqueue({ n: -1, pad });
    await begun(() => warmed, i);
  }
  const first = performance.now();
  for (let n = 0; n < order.jobs; n++) {
    const wait = first + (n * 1000) / rate - performance.now();
    if (wait >= 1) await sleep(wait);
    asked[n] = performance.now();
    await peer.enqueue({ n, pad });
    sent[n] = performance.now();
  }
  await begun(() => began.filter((at) => at !== undefined).length, order.jobs);
  const since = (from) => from.map((at, n) => Math.max(0, began[n] - at));
  return { millis: since(sent), whole: since(asked) };
}

// peak is the most memory that this process held so far, where the system says.
function peak() {
  try {
    return 1024 * Number(/VmHWM:\s*(\d+) kB/.exec(readFileSync("/proc/self/status", "utf8"))[1]);
  } catch {
    return 0;
  }
}

const steps = {
  migrate: async (peer) => (await peer.migrate(), {}),
  fill: (peer, order) => timed(async () => (await peer.enqueueMany(order.jobs, JSON.parse(order.args)), order.jobs)),
  single: (peer, order) => timed(() => single(peer, order)),
  work: (peer, order) => timed(() => work(peer, order)),
  latency,
};

// main is the whole of a peer's program.
export async function main(open) {
  try {
    const order = JSON.parse(process.argv[2]);
    const report = await steps[order.step](await open(order), order);
    report.peak_bytes = peak();
    process.stdout.write(JSON.stringify(report) + "\n", () => process.exit(0));
  } catch (err) {
    process.stderr.write(String(err?.stack ?? err).replaceAll("\n", " ") + "\n", () => process.exit(1));
  }
}
