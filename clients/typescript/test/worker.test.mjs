// The client and the worker against the real server.
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { hostname } from "node:os";
import { join } from "node:path";
import { Cancelled, Client, DaybookError, Decimal, Json, LeaseLost, Permanent, Snooze, Worker } from "daybook-client";
import { Between, Script, Server, awaits, quiet, told, unique } from "./support.mjs";

let server, client;
before(async () => {
  server = await Server.start();
  client = new Client({ server: server.url });
});
after(async () => {
  await server.daybook("check", "--full");
  await server.close();
});

const ends = (id, state, by = client) =>
  awaits(`job is ${state}`, async () => {
    const job = await by.job(id);
    return job.state === state ? job : undefined;
  });

/** Works a queue off. */
async function drain(queue, handler, more = {}) {
  const worker = new Worker(client, { queues: [queue], log: quiet, ...more });
  await worker.handle(null, handler).run({ drain: true, signals: false });
  return worker;
}

/** Runs a worker beside what the test does. */
async function beside(by, queue, handler, more, act) {
  const worker = new Worker(by, { queues: [queue], log: quiet, grace: 5, ...more }).handle(null, handler);
  const over = worker.run({ signals: false });
  try {
    await act(worker);
  } finally {
    worker.stop();
    await over;
  }
}

async function between(t) {
  const way = await Between.start(server);
  t.after(() => way.close());
  return way;
}

const enqueue = async (queue, more = {}) => (await client.enqueue({ queue, kind: "k", ...more })).id;

/** Makes the book take back what sessions past their lease hold. */
const takenBack = (id) =>
  awaits("the book takes the job back", async () => {
    await server.daybook("reconcile", "--once");
    return (await client.job(id)).state === "waiting";
  });

describe("work", () => {
  test("result", async () => {
    const queue = unique("q");
    const job = { queue, kind: "add", key: queue };
    const receipt = await client.enqueue({ ...job, args: { a: 1, b: 2 } });
    assert.deepEqual(await client.enqueue({ ...job, args: { b: 2, a: 1 } }), { id: receipt.id, replayed: true });
    await drain(queue, ({ args }) => ({ sum: args.a + args.b }));
    assert.equal((await ends(receipt.id, "succeeded")).result.text, '{"sum":3}');
    const events = await client.timeline(receipt.id);
    assert.deepEqual(events.map((e) => e.what), ["accepted", "replayed", "claimed", "succeeded"]);
    assert.equal(events[2].detail, `by worker ${hostname()}`);
    assert.equal((await client.why(receipt.id)).state, "succeeded");
  });

  test("many", async () => {
    const queue = unique("q");
    const keyOf = (n) => (n < 50 ? { key: `${queue}-${n}` } : {});
    const jobs = Array.from({ length: 100 }, (_, n) => ({ queue, kind: "k", args: n, ...keyOf(n) }));
    const first = await client.enqueueMany(jobs);
    const second = await client.enqueueMany(jobs.slice(0, 50));
    assert.deepEqual(first.slice(0, 50).map((r) => r.id), second.map((r) => r.id));
    const worker = await drain(queue, () => undefined, { concurrency: 7 });
    assert.equal(worker.counts.recorded, 100);
    assert.equal((await client.jobs({ queue, state: "succeeded", limit: 1000 })).jobs.length, 100);
  });

  test("numbers stay", async () => {
    const queue = unique("q");
    const numbers = '"big":9007199254740993,"one":1.0,"half":0.5,"tiny":0.1000000000000000055511151231257827,"e":1e400';
    const text = `{${numbers},"s":"\\u00e9😀","__proto__":{"x":1}}`;
    const id = await enqueue(queue, { args: new Json(text) });
    let seen;
    await drain(queue, (claim) => {
      seen = claim;
      return claim.args;
    });
    assert.equal(seen.argsJson.text, text);
    assert.equal(seen.args.big, 9007199254740993n);
    assert.equal(seen.args.half, 0.5);
    assert.ok(seen.args.tiny instanceof Decimal && seen.args.e instanceof Decimal);
    const { result } = await client.job(id);
    assert.deepEqual(result.value, seen.args);
    assert.match(result.text, /"big":9007199254740993,.*"tiny":0.1000000000000000055511151231257827,"e":1e400/);
    assert.match(result.text, /"__proto__":\{"x":1\}/);
  });

  test("how handlers end", async () => {
    const queue = unique("q");
    const ids = {};
    for (const kind of ["permanent", "snooze", "unwritable", "failing"]) {
      ids[kind] = (await client.enqueue({ queue, kind, max_failures: 1 })).id;
    }
    await drain(queue, ({ job }) => {
      if (job.kind === "permanent") throw new Permanent("no such account");
      if (job.kind === "snooze") throw new Snooze(3600);
      if (job.kind === "unwritable") return { at: NaN };
      throw new RangeError("to \ud800");
    });
    const end = async (kind) => {
      const job = await client.job(ids[kind]);
      return [job.state, job.reason, job.failures];
    };
    assert.deepEqual(await end("permanent"), ["set_aside", "permanent", 1]);
    assert.deepEqual(await end("snooze"), ["waiting", undefined, 0]);
    assert.deepEqual(await end("unwritable"), ["set_aside", "permanent", 1]);
    assert.deepEqual(await end("failing"), ["set_aside", "failures", 1]);
    const { last_error } = await client.job(ids.failing);
    assert.equal(last_error.kind, "RangeError");
    assert.match(last_error.trace, /worker\.test\.mjs/);
  });

  test("errors have codes", async () => {
    const queue = unique("q");
    const id = await enqueue(queue);
    const calls = {
      not_found: () => client.job("0190a2b4-7c1e-7000-8000-000000000001"),
      invalid: () => client.enqueue({ queue: "no such name!", kind: "k" }),
      key_conflict: () => client.enqueueMany([1, 2].map((args) => ({ queue, kind: "k", args, key: queue }))),
      fenced: () => client.complete(id, { session: "0190a2b4-7c1e-7000-8000-0000000000aa", generation: 1 }),
    };
    for (const [code, call] of Object.entries(calls)) {
      await assert.rejects(call, (e) => e instanceof DaybookError && e.code === code, code);
    }
  });

  test("starts are recorded", async () => {
    const queue = unique("q");
    const id = await enqueue(queue, { on_lost: "set_aside" });
    await drain(queue, () => undefined);
    assert.ok((await client.attempts(id))[0].started_at);
  });

  test("crash between", async () => {
    const queue = unique("q");
    const id = await enqueue(queue);
    const program = `import { Client, Worker } from "daybook-client";
      const worker = new Worker(new Client(), { queues: [process.argv[1]], lease: 2 });
      worker.handle("k", () => (console.log("begun"), new Promise((done) => setTimeout(done, 1e6))));
      await worker.run();`;
    const script = new Script(["--input-type=module", "-e", program], [queue], server);
    await script.says("begun");
    script.child.kill("SIGKILL");
    await script.ends();
    await takenBack(id);
    await drain(queue, (claim) => claim.attempt);
    const job = await client.job(id);
    assert.deepEqual([job.state, job.crashes, job.result.value], ["succeeded", 1, 2]);
  });
});

describe("told to stop", () => {
  test("lost", async (t) => {
    const queue = unique("q");
    const way = await between(t);
    const id = await enqueue(queue);
    const begun = told("the handler begins");
    const stopped = told("the handler is told");
    const first = async (claim) => {
      begun.tell();
      await claim.wait(60).catch((e) => stopped.tell([e, claim.lost]));
      return "from the grave";
    };
    await beside(new Client({ server: way.url }), queue, first, { lease: 1 }, async () => {
      await begun.promise;
      way.spoil = () => "gone";
      const [e, lost] = await stopped.promise;
      assert.ok(e instanceof LeaseLost && lost);
      await takenBack(id);
      await drain(queue, () => "second");
      way.spoil = () => undefined;
      const kept = async () => (await client.timeline(id)).some((e) => e.what === "fenced");
      await awaits("the first one's word is kept", kept);
    });
    const job = await client.job(id);
    assert.deepEqual([job.state, job.result.value], ["succeeded", "second"]);
  });

  test("lost by renewal", async () => {
    const queue = unique("q");
    const id = await enqueue(queue);
    const begun = told("the handler begins");
    const stopped = told("the handler is told");
    const handler = async (claim) => {
      begun.tell();
      claim.signal.addEventListener("abort", () => stopped.tell(claim.signal.reason));
      await claim.wait(60);
    };
    await beside(client, queue, handler, { lease: 6 }, async () => {
      await begun.promise;
      await client.cancel(id, { reason: "taken away", force: true });
      assert.ok((await stopped.promise) instanceof LeaseLost);
    });
    assert.equal((await client.job(id)).state, "cancelled");
  });

  test("cancel", async () => {
    const queue = unique("q");
    const id = await enqueue(queue);
    const begun = told("the handler begins");
    const handler = async (claim) => {
      begun.tell();
      await claim.wait(60).catch((e) => {
        assert.ok(e instanceof Cancelled && claim.cancel && !claim.lost);
        throw e;
      });
    };
    await beside(client, queue, handler, { lease: 6 }, async () => {
      await begun.promise;
      await client.cancel(id, { reason: "not wanted any more" });
      await ends(id, "cancelled");
    });
  });

  test("stop gives back", async () => {
    const queue = unique("q");
    const ids = [];
    for (const kind of ["polite", "stubborn"]) ids.push((await client.enqueue({ queue, kind })).id);
    const program = `import { Client, Worker } from "daybook-client";
      const worker = new Worker(new Client(), { queues: [process.argv[1]], grace: 0.5 });
      const stopped = new Promise((done) => process.on("SIGTERM", () => done("done")));
      worker.handle("polite", () => (console.log("begun"), stopped));
      worker.handle("stubborn", () => (console.log("begun"), new Promise(() => {})));
      await worker.run();
      console.log("over");`;
    const script = new Script(["--input-type=module", "-e", program], [queue], server);
    await script.says("begun", 2);
    script.child.kill("SIGTERM");
    assert.equal(await script.ends(), 0);
    assert.ok(script.said.includes("over"));
    const [polite, stubborn] = await Promise.all(ids.map((id) => client.job(id)));
    assert.deepEqual([polite.state, polite.result.value], ["succeeded", "done"]);
    assert.deepEqual([stubborn.state, stubborn.crashes, stubborn.failures], ["waiting", 0, 0]);
  });
});

describe("bad weather", () => {
  test("hostile answers", async (t) => {
    const queue = unique("q");
    const way = await between(t);
    const evils = ["html", "false html", "other json", "rate limited", "gone", "lost answer", "truncated"];
    const left = { "/v1/claims": [...evils], "/v1/outcomes": [...evils], renew: [...evils] };
    way.spoil = (path) => left[path.endsWith("/renew") ? "renew" : path]?.shift();
    const ids = [];
    for (let n = 0; n < 5; n++) ids.push(await enqueue(queue));
    const handler = async (claim) => {
      while (left.renew.length > 0) await claim.worker.renew();
    };
    await beside(new Client({ server: way.url }), queue, handler, {}, async () => {
      for (const id of ids) await ends(id, "succeeded");
      await awaits("all was tried", () => Object.values(left).every((l) => l.length === 0));
    });
    for (const id of ids) {
      const job = await client.job(id);
      assert.deepEqual([job.crashes, job.failures, job.generation], [0, 0, 1]);
    }
    assert.deepEqual(way.spoiled.toSorted(), [...evils, ...evils, ...evils].toSorted());
  });

  test("a lost claim answer is repeated", async (t) => {
    const queue = unique("q");
    const way = await between(t);
    const id = await enqueue(queue);
    const lost = ["lost answer"];
    way.spoil = (path) => (path === "/v1/claims" ? lost.shift() : undefined);
    await beside(new Client({ server: way.url }), queue, () => undefined, {}, () => ends(id, "succeeded"));
    const keys = way.calls.filter((c) => c.path === "/v1/claims").map((c) => c.key);
    assert.equal(keys[0], keys[1]);
    const job = await client.job(id);
    assert.deepEqual([job.generation, job.crashes], [1, 0]);
  });

  test("server killed", async (t) => {
    const queue = unique("q");
    const other = await Server.start(process.env.DAYBOOK_TEST_DB || undefined);
    t.after(() => other.close());
    const by = new Client({ server: other.url });
    const rows = await by.enqueueMany(Array.from({ length: 60 }, () => ({ queue, kind: "k" })));
    const begun = told("a handler begins");
    const go = told("the handlers may end");
    const handler = () => (begun.tell(), go.promise.then(() => undefined));
    await beside(by, queue, handler, { concurrency: 20 }, async () => {
      await begun.promise;
      for (let n = 0; n < 2; n++) {
        await other.kill();
        go.tell();
        await other.start();
      }
      for (const { id } of rows) {
        const job = await ends(id, "succeeded", by);
        assert.deepEqual([job.crashes, job.generation], [0, 1]);
      }
    });
  });

  test("wrong token", async (t) => {
    const other = await Server.start(`sqlite:${join(server.folder, unique("token"))}.db`);
    t.after(() => other.close());
    const token = (await other.daybook("token", "create", "w", "--scope", "work")).trim().split(/\s+/).at(-1);
    const worker = new Worker(new Client({ server: other.url, token: "daybook_wrong" }), { queues: ["q"], log: quiet });
    worker.handle("k", () => undefined);
    await assert.rejects(
      () => awaits("the new token counts", () => worker.run({ drain: true, signals: false })),
      (e) => e.code === "unauthorized" && /token/.test(e.message) && !e.message.includes("daybook_wrong"),
    );
    const allowed = new Client({ server: other.url, token });
    await assert.rejects(allowed.enqueue({ queue: "q", kind: "k" }), { code: "forbidden" });
  });
});

test("examples", async () => {
  const added = new Script(["examples/enqueue.mjs"], ["ada@example.org", "nobody"], server);
  assert.equal(await added.ends(), 0);
  const worked = new Script(["examples/worker.mjs"], ["--drain"], server);
  assert.equal(await worked.ends(), 0);
  const [good, bad] = await Promise.all(added.said.map((line) => client.job(line.split(" ")[0])));
  assert.deepEqual([good.state, good.result.value.mailed], ["succeeded", "ada@example.org"]);
  assert.deepEqual([bad.state, bad.reason], ["set_aside", "permanent"]);
  const what = (await client.timeline(good.id)).map((e) => e.what);
  assert.deepEqual(what, ["accepted", "claimed", "effect begun", "effect done", "succeeded"]);
});
