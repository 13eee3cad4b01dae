/**
 * The ledger of outside actions, as a handler uses it. The rules are the book's
 * (docs/effects.md): what is done is not called again, what is open is decided by
 * the declared policy, and a timeout is not a no.
 */
import type { BeginBody, Begun, FinishBody } from "./api.js";
import { Backoff, newId, sleep } from "./client.js";
import { DaybookError, LeaseLost, NotHappened, Permanent, Snooze } from "./errors.js";
import { Json, stringify } from "./exact.js";
import type { Claim } from "./worker.js";

const resultMax = 1 << 20;

/** One call outside, as the function of an effect gets it. */
export interface OutsideCall {
  /** The same in every attempt: give it to the destination. */
  readonly key: string;
  /** Aborts when the call must be given up: give it to fetch. */
  readonly signal: AbortSignal;
}

/** What a probe answers when the earlier call happened, with its result. */
export interface Found {
  result?: unknown;
}

export type Probe = (call: OutsideCall) => Promise<Found | null> | Found | null;

/** What an open effect means for the next attempt. */
export interface Policy {
  readonly name: "keyed" | "checked" | "repeatable" | "ask";
  readonly window?: number;
  readonly quiet?: number;
  readonly probe?: Probe;
}

/** A time in words, added up; or a number of seconds. */
export type Span = number | { days?: number; hours?: number; minutes?: number; seconds?: number };

function secondsOf(span: Span): number {
  if (typeof span === "number") return span;
  return (span.days ?? 0) * 86400 + (span.hours ?? 0) * 3600 + (span.minutes ?? 0) * 60 + (span.seconds ?? 0);
}

/** For what may be done twice: call again. */
export const repeatable: Policy = { name: "repeatable" };

/** For destinations that offer nothing: set the job aside, and a person says whether
 * it happened. */
export const ask: Policy = { name: "ask" };

/** For destinations that do an action once for a key that they know. The window is
 * how long they know it, counted from the first begin: keyed({ days: 1 }). */
export function keyed(window: Span): Policy {
  return { name: "keyed", window: secondsOf(window) };
}

/** For destinations that can be asked whether it happened. quiet is how long after a
 * call was given up its trace may still appear. The probe answers an object with the
 * result, or null when it didn't happen; when it throws, it can't tell, and a person
 * is asked. */
export function checked(probe: Probe, quiet: Span): Policy {
  return { name: "checked", quiet: secondsOf(quiet), probe };
}

export interface EffectOptions {
  /** What the call is about to do; a later attempt with another one is stopped. */
  input?: unknown;
  /** Call with a new key after the one before was absent. */
  nextKey?: boolean;
  /** Seconds that the call may take; half of the lease without. */
  limit?: number;
}

export async function perform(
  claim: Claim, name: string, policy: Policy, fn: (call: OutsideCall) => unknown, options: EffectOptions,
): Promise<any> {
  const effect = new Effect(claim, name, policy, options);
  return effect.run(fn);
}

class Effect {
  readonly #body: BeginBody;
  readonly #limit: number;

  constructor(
    readonly claim: Claim,
    readonly name: string,
    readonly policy: Policy,
    readonly options: EffectOptions,
  ) {
    const most = claim.worker.lease / 2;
    const limit = options.limit ?? (policy.window ? Math.min(most, policy.window) : most);
    if (!(limit > 0 && limit <= most)) {
      throw new TypeError(`limit wants more than 0 and at most half of the worker's lease, ${most} s; got ${limit}`);
    }
    this.#limit = limit;
    this.#body = { ...claim.owner, policy: policy.name, call_seconds: limit };
    if (policy.window !== undefined) this.#body.window_seconds = policy.window;
    if (policy.quiet !== undefined) this.#body.quiet_seconds = policy.quiet;
    if (options.nextKey) this.#body.next_key = true;
  }

  async run(fn: (call: OutsideCall) => unknown): Promise<any> {
    if (this.options.input !== undefined) {
      const text = new TextEncoder().encode(stringify(sorted(this.options.input)));
      const sum = new Uint8Array(await crypto.subtle.digest("SHA-256", text));
      this.#body.fingerprint = Array.from(sum.subarray(0, 16), (b) => b.toString(16).padStart(2, "0")).join("");
    }
    for (let probed = false; ; probed = true) {
      const sent = performance.now();
      const begun = await this.#begin();
      switch (begun.decision) {
        case "done":
          return begun.result?.value;
        case "call":
          return this.#call(begun.key, sent, fn);
        case "wait":
          throw new Snooze(this.#until(begun.wait_until), `effect ${this.name} is settling`);
        case "ask":
          throw this.#asked();
      }
      if (probed || this.policy.probe === undefined) {
        throw new DaybookError("refused", `effect ${this.name} has no probe that the book could rely on`);
      }
      const found = await this.#probe(begun.key, this.policy.probe);
      if (found !== null) return this.#happened(found.result);
    }
  }

  /** Makes the begin, with a lease that holds longer than the call, and again while
   * the server is away. */
  async #begin(): Promise<Begun> {
    const { claim } = this;
    const body = { ...this.#body, call: newId() };
    const again = new Backoff();
    for (;;) {
      claim.check();
      if (claim.worker.leaseLeft() < this.#limit) {
        await claim.worker.renew();
        claim.check();
      }
      try {
        return await claim.worker.call("beginEffect", { path: { id: claim.id, name: this.name }, body });
      } catch (e) {
        if (!(e instanceof DaybookError)) throw e;
        if (e.code === "fenced") throw this.#lost(e);
        if (!e.passing) throw e;
        await sleep(again.after(e), claim.signal);
      }
    }
  }

  #lost(e: DaybookError): LeaseLost {
    this.claim.worker.lose(this.claim);
    return new LeaseLost(e.detail, e);
  }

  #asked(cause?: unknown): DaybookError {
    this.claim.setAside = true;
    const detail = `effect ${this.name} may have happened; the job is set aside for a person`;
    return new DaybookError("effect_open", detail, { cause });
  }

  async #call(key: string, sent: number, fn: (call: OutsideCall) => unknown): Promise<any> {
    // What a process does that is stopped between this check and the send, only a
    // destination that enforces the key can tell.
    const left = this.#limit - (performance.now() - sent) / 1000;
    try {
      this.claim.check();
      if (left <= 0) throw new Snooze(0, `there was no time left for effect ${this.name}`);
    } catch (e) {
      await this.#finish("absent");
      throw e;
    }
    let result: unknown;
    try {
      result = await this.#bounded(left, key, fn);
    } catch (e) {
      if (e instanceof NotHappened) await this.#finish("absent");
      throw e;
    }
    return this.#happened(result);
  }

  async #bounded<T>(seconds: number, key: string, fn: (call: OutsideCall) => T): Promise<Awaited<T>> {
    const control = new AbortController();
    const stop = () => control.abort(this.claim.signal.reason);
    const timer = setTimeout(() => control.abort(new Error("the call took too long")), seconds * 1000);
    this.claim.signal.addEventListener("abort", stop);
    try {
      return await fn({ key, signal: control.signal });
    } finally {
      clearTimeout(timer);
      this.claim.signal.removeEventListener("abort", stop);
    }
  }

  /** Records that it was done, and its result, if that can be kept: another attempt
   * would make the same one. */
  async #happened(result: unknown): Promise<any> {
    let kept: Json | undefined;
    let wrong: string | undefined;
    if (result !== undefined) {
      try {
        kept = Json.of(result);
        const size = new TextEncoder().encode(kept.text).byteLength;
        if (size > resultMax) wrong = `at most ${resultMax} bytes, got ${size}`;
      } catch (e) {
        wrong = String(e);
      }
    }
    if (wrong !== undefined) {
      await this.#finish("done");
      throw new Permanent(`the result of effect ${this.name} happened, but isn't kept: ${wrong}`);
    }
    await this.#finish("done", kept);
    return kept?.value;
  }

  /** Asks the destination whether the call of an earlier attempt happened. */
  async #probe(key: string, probe: Probe): Promise<Found | null> {
    let found: Found | null;
    try {
      found = await this.#bounded(this.#limit, key, probe);
      if (found === undefined || typeof found !== "object") throw new TypeError("a probe answers { result } or null");
    } catch (e) {
      if (this.claim.signal.aborted) throw e; // the attempt is over, and the next one asks again
      await this.#finish("unknown");
      throw this.#asked(e);
    }
    if (found === null) await this.#finish("absent");
    return found;
  }

  /** Records what is known now, again and again until the book takes or refuses it:
   * also when the attempt is over, since what happened happened. */
  async #finish(outcome: string, result?: Json): Promise<void> {
    const { claim } = this;
    const body: FinishBody = { ...claim.owner, outcome, ...(result === undefined ? {} : { result }) };
    const again = new Backoff();
    for (;;) {
      try {
        await claim.worker.call("finishEffect", { path: { id: claim.id, name: this.name }, body });
        return;
      } catch (e) {
        if (!(e instanceof DaybookError)) throw e;
        if (e.code === "fenced") throw this.#lost(e);
        if (!e.passing || !(await claim.worker.sleep(again.after(e)))) throw e;
      }
    }
  }

  /** Seconds until a time of the server. When the clocks differ by more than a
   * second, its own counts. */
  #until(at: string | undefined): number {
    const left = (Date.parse(at ?? "") - Date.now()) / 1000 - this.claim.worker.client.clockOff;
    return Number.isNaN(left) ? 1 : Math.max(0.001, left);
  }
}

/** A value whose keys stand in order, so that a rebuilt object is the same input. */
function sorted(value: unknown): unknown {
  if (value instanceof Json) return sorted(value.value);
  if (Array.isArray(value)) return value.map(sorted);
  if (value === null || typeof value !== "object" || Object.getPrototypeOf(value) !== Object.prototype) return value;
  return Object.fromEntries(Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1)).map(([k, v]) => [k, sorted(v)]));
}
