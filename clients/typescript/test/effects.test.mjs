// The effects helper: each policy, through done, absent and open.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { Client, NotHappened, Permanent, Worker, ask, checked, keyed, repeatable } from "daybook-client";
import { Server, awaits, quiet, unique } from "./support.mjs";

let server, client;
before(async () => {
  server = await Server.start();
  client = new Client({ server: server.url });
});
after(async () => {
  await server.daybook("check", "--full");
  await server.close();
});

const timedOut = () => {
  throw new Error("no answer");
};
const never = () => null;

async function drain(queue, handler) {
  const worker = new Worker(client, { queues: [queue], log: quiet });
  await worker.handle(null, handler).run({ drain: true, signals: false });
}

/** A job with an open effect of an attempt that failed, and its key. */
async function opened(queue, policy) {
  const { id } = await client.enqueue({ queue, kind: "k" });
  const { session, claims } = await client.claim({ queues: [queue], worker: "by hand" });
  const owner = { session, generation: claims[0].generation };
  const begun = await client.beginEffect(id, "charge", {
    ...owner, policy: policy.name, call_seconds: 0.2,
    ...(policy.window === undefined ? {} : { window_seconds: policy.window }),
    ...(policy.quiet === undefined ? {} : { quiet_seconds: policy.quiet }),
  });
  assert.equal(begun.decision, "call");
  await client.fail(id, { ...owner, error: "no answer", retry_in_seconds: 0 });
  return { id, key: begun.key };
}

/** Works the queue off, and says with which keys the destination was called. */
async function attempt(queue, policy, answer, options) {
  const called = [];
  const fn = ({ key, signal }) => {
    called.push(key);
    assert.ok(!signal.aborted);
    if (answer instanceof Error) throw answer;
    return answer;
  };
  await drain(queue, (claim) => claim.effect("charge", policy, fn, options));
  return called;
}

async function standing(id) {
  const job = await client.job(id);
  const { effects } = await client.effects({ job: id });
  return [job.state, job.reason, effects[0].state];
}

test("done is not called again", async () => {
  for (const policy of [repeatable, keyed({ days: 1 }), checked(never, 1), ask]) {
    const queue = unique("q");
    const { id } = await client.enqueue({ queue, kind: "k" });
    let calls = 0;
    await drain(queue, async (claim) => {
      await claim.effect("charge", policy, () => (calls++, { id: 2n ** 60n }));
      throw new Permanent("and now it crashes");
    });
    assert.deepEqual(await standing(id), ["set_aside", "permanent", "done"], policy.name);
    await client.revive(id, { reason: "try again" });
    await drain(queue, (claim) => claim.effect("charge", policy, timedOut));
    assert.deepEqual((await client.job(id)).result.value, { id: 2n ** 60n });
    assert.equal(calls, 1);
  }
});

test("absent is called again", async () => {
  for (const policy of [repeatable, keyed({ days: 1 }), checked(never, 0), ask]) {
    const queue = unique("q");
    const { id } = await client.enqueue({ queue, kind: "k", max_failures: 1 });
    const first = await attempt(queue, policy, new NotHappened("declined"));
    assert.deepEqual(await standing(id), ["set_aside", "failures", "absent"], policy.name);
    await client.revive(id, { reason: "try again" });
    const second = await attempt(queue, policy, "receipt", { nextKey: policy === ask });
    assert.deepEqual(await standing(id), ["succeeded", undefined, "done"], policy.name);
    assert.equal(first[0] === second[0], policy !== ask);
  }
});

test("open, keyed or repeatable: called again with the same key", async () => {
  for (const policy of [keyed({ days: 1 }), repeatable]) {
    const queue = unique("q");
    const { id, key } = await opened(queue, policy);
    assert.deepEqual(await attempt(queue, policy, "receipt"), [key]);
    assert.deepEqual(await standing(id), ["succeeded", undefined, "done"]);
  }
});

test("open, keyed past its window: a person is asked", async () => {
  const queue = unique("q");
  const { id } = await opened(queue, keyed(1));
  const { effects } = await client.effects({ job: id });
  await awaits("the window is over", () => Date.parse(effects[0].safe_until) < Date.now());
  assert.deepEqual(await attempt(queue, keyed(1)), []);
  assert.deepEqual(await standing(id), ["set_aside", "effect_open", "open"]);
});

test("open, ask: a person settles", async () => {
  const queue = unique("q");
  const { id } = await opened(queue, ask);
  assert.deepEqual(await attempt(queue, ask), []);
  assert.deepEqual(await standing(id), ["set_aside", "effect_open", "open"]);
  await assert.rejects(client.revive(id, { reason: "just try" }), { code: "effect_open" });
  await client.settle(id, "charge", { outcome: "happened", reason: "on the statement", result: { seen: true } });
  assert.deepEqual(await attempt(queue, ask), []);
  assert.deepEqual((await client.job(id)).result.value, { seen: true });
});

test("open, checked: given back while it may still show, then the destination is asked", async () => {
  for (const found of [{ result: "receipt" }, null]) {
    const queue = unique("q");
    const asked = [];
    const policy = checked(({ key }) => (asked.push(key), found), 0.5);
    const { id, key } = await opened(queue, policy);
    const calls = [];
    await awaits("it is asked", async () => {
      calls.push(...(await attempt(queue, policy, "receipt")));
      return (await client.job(id)).state === "succeeded";
    });
    assert.deepEqual([asked, calls], [[key], found ? [] : [key]]);
    assert.equal((await client.job(id)).result.value, "receipt");
    assert.ok((await client.attempts(id)).some((a) => a.outcome === "released"));
    assert.deepEqual(await standing(id), ["succeeded", undefined, "done"]);
  }
});

test("open, checked, and the probe can't tell: a person is asked", async () => {
  const queue = unique("q");
  const policy = checked(timedOut, 0);
  const { id } = await opened(queue, policy);
  await awaits("a person is asked", async () => {
    assert.deepEqual(await attempt(queue, policy), []);
    return (await client.job(id)).state === "set_aside";
  });
  assert.deepEqual(await standing(id), ["set_aside", "effect_open", "open"]);
});

test("a timeout is not a no, and a success with an open effect fails", async () => {
  const queue = unique("q");
  const { id } = await client.enqueue({ queue, kind: "k", max_failures: 1 });
  await drain(queue, async (claim) => {
    await claim.effect("charge", ask, timedOut).catch(() => undefined);
    return "looks fine";
  });
  assert.equal((await standing(id))[2], "open");
  assert.equal((await client.job(id)).last_error.kind, "effect_open");
});

test("a call is told when it must be given up", async () => {
  const queue = unique("q");
  const { id } = await client.enqueue({ queue, kind: "k", max_failures: 1 });
  const hang = ({ signal }) => new Promise((_, fail) => signal.addEventListener("abort", () => fail(signal.reason)));
  await drain(queue, (claim) => claim.effect("charge", ask, hang, { limit: 0.05 }));
  assert.deepEqual(await standing(id), ["set_aside", "failures", "open"]);
});

test("a name is used once", async () => {
  const queue = unique("q");
  await client.enqueue({ queue, kind: "k", max_failures: 1 });
  let code;
  await drain(queue, async (claim) => {
    await claim.effect("charge", repeatable, () => 1);
    await claim.effect("charge", repeatable, () => 2).catch((e) => (code = e.code));
  });
  assert.equal(code, "effect_name_reused");
});

test("another input is stopped", async () => {
  const queue = unique("q");
  const { id } = await client.enqueue({ queue, kind: "k", max_failures: 1 });
  await attempt(queue, repeatable, new Error("no answer"), { input: { cents: 500, to: "ada" } });
  await client.settle(id, "charge", { outcome: "happened", reason: "seen", stay: true });
  await client.revive(id, { reason: "try again" });
  assert.deepEqual(await attempt(queue, repeatable, 1, { input: { to: "ada", cents: 501 } }), []);
  assert.equal((await client.job(id)).reason, "effect_changed");
});
