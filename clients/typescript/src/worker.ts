/**
 * A worker: claims jobs, runs handlers for them, keeps the lease, reports.
 *
 * One session with one lease holds for everything a worker claimed. It is renewed at
 * a third of the lease, naming each claim. The lease counts from before a call was
 * sent, by this process's own clock; when it ran out by that, handlers are told to
 * stop, since the book may give their jobs away. What they say all the same is sent
 * with their generation, and the book decides.
 */
import type { ClaimRef, Job, Operations, OutcomeAnswer, OutcomeRow, Renewed } from "./api.js";
import { Backoff, newId, sleep, type CallOptions, type Client } from "./client.js";
import { perform, type EffectOptions, type OutsideCall, type Policy } from "./effects.js";
import { Cancelled, DaybookError, LeaseLost, Permanent, Snooze, Stopping } from "./errors.js";
import { Json } from "./exact.js";

declare const process:
  | {
      on(signal: string, f: () => void): void;
      off(signal: string, f: () => void): void;
      getBuiltinModule?(name: "node:os"): { hostname(): string } | undefined; // Node 20.16
    }
  | undefined;

/** The machine's name, where it can be told. */
function hostName(): string | undefined {
  return typeof process === "undefined" ? undefined : process.getBuiltinModule?.("node:os")?.hostname();
}

export type Handler = (claim: Claim) => unknown;

export interface Log {
  info(text: string): void;
  warn(text: string): void;
  error(text: string): void;
}

export interface WorkerOptions {
  queues: readonly string[];
  /** Shown to people; without, the machine's name, or "worker" where that can't be told (before Node 20.16). */
  name?: string;
  /** Handlers that run at once; 10 without. */
  concurrency?: number;
  /** Seconds (1 to 86400) after which the jobs of a worker that was not heard of go to
   * others; 30 without. */
  lease?: number;
  /** Seconds that handlers get when the worker stops; 25 without. */
  grace?: number;
  /** Seconds that a claim call waits for work, at most 60; a third of the lease without. */
  wait?: number;
  /** Default console. */
  log?: Log;
}

export interface RunOptions {
  /** End when nothing is eligible and nothing runs. */
  drain?: boolean;
  /** Stop at SIGTERM and SIGINT, a second one at once; true without. */
  signals?: boolean;
}

/** What a worker can't cure by trying again: it stops, and says so. */
const fatal = new Set(["unauthorized", "forbidden", "invalid", "malformed", "unsupported_media_type"]);
/** Bounds of one call with outcomes. */
const rowsMost = 500;
const bytesMost = 8 << 20;
/** How often an outcome is sent that the server fails on for another reason than being away. */
const triesMost = 3;
/** Seconds that handlers get to return behind the grace, once they are told. */
const settleMost = 1;

const now = (): number => performance.now() / 1000;

/** One attempt of a job, as its handler sees it. */
export class Claim {
  readonly #over = new AbortController();
  /** Aborts when the handler should return; its reason is a LeaseLost, Cancelled or
   * Stopping. Give it to fetch and whatever else takes one. */
  readonly signal = this.#over.signal;
  /** Another worker may run the job. */
  lost = false;
  /** A person asked to cancel the job. */
  cancel = false;
  /** @internal By the ledger, for a person: the attempt has ended. */
  setAside = false;
  /** @internal */
  state: "queued" | "running" | "returned" = "queued";

  constructor(
    readonly worker: Worker,
    readonly session: string,
    readonly job: Job,
    readonly generation: number,
  ) {}

  get id(): string {
    return this.job.id;
  }

  /** The job's input: whole numbers past 2^53 are bigint, fractions that a number
   * can't hold are Decimal. */
  get args(): any {
    return this.argsJson.value;
  }

  /** The job's input as it is kept; `.text` is its JSON. */
  get argsJson(): Json {
    return this.job.args ?? new Json("{}");
  }

  /** Counts from 1: one more than what failed or crashed. */
  get attempt(): number {
    return this.job.failures + this.job.crashes + 1;
  }

  /** Session and generation: what every write in its name carries. */
  get owner(): { session: string; generation: number } {
    return { session: this.session, generation: this.generation };
  }

  /** @internal */
  get ref(): string {
    return `${this.id} ${this.generation}`;
  }

  /** Throws why the attempt is over, if it is. Call it between steps, and let the
   * error pass. */
  check(): void {
    if (!this.signal.aborted && this.worker.leaseLeft() <= 0) this.worker.lose(this);
    this.signal.throwIfAborted();
  }

  /** Waits so many seconds, and throws as check does as soon as the attempt is over. */
  async wait(seconds: number): Promise<void> {
    await sleep(seconds, this.signal);
    this.check();
  }

  /** Keeps a note of how far the attempt is, at most 4 KiB of JSON; it replaces the
   * one before. */
  async progress(note: unknown): Promise<void> {
    this.check();
    try {
      await this.worker.client.progress(this.id, { ...this.owner, progress: note });
    } catch (e) {
      if (!(e instanceof DaybookError) || e.code !== "fenced") throw e;
      this.worker.lose(this);
      throw new LeaseLost(e.detail, e);
    }
  }

  /**
   * Do one outside action of this job through the ledger.
   *
   * When it is done already its recorded result is returned and nothing is called.
   * Else fn runs with a call (`key`, `signal`), and what it returns is recorded as
   * JSON, and returned as a later attempt would get it. fn throws NotHappened when the
   * action certainly had no effect; any other error leaves it open, and the policy
   * decides what the next attempt makes of that. Let what this throws pass through the
   * handler: it may end the attempt in a way of its own.
   */
  effect(name: string, policy: Policy, fn: (call: OutsideCall) => unknown, options: EffectOptions = {}): Promise<any> {
    return perform(this, name, policy, fn, options);
  }

  /** @internal Tells the handler to stop; the first cause stands. */
  end(why: DaybookError): void {
    this.lost ||= why instanceof LeaseLost;
    this.cancel ||= why instanceof Cancelled;
    this.#over.abort(why);
  }
}

/** One claim call. Until its answer came it is repeated by its key, and gives the same claims. */
interface ClaimCall {
  session: string | undefined;
  limit: number;
  wait: number;
  listings: number;
  key: string;
  first: number;
  repeated: boolean;
}

interface Ending {
  claim: Claim;
  row: OutcomeRow;
  /** Stands in for an outcome that was refused for what it says. */
  instead: boolean;
}

type HowEnded = Omit<OutcomeRow, "id" | "session" | "generation">;

/** Something to wait for: told, or over in time. */
class Bell {
  #waiting = new Set<() => void>();

  ring(): void {
    for (const wake of this.#waiting) wake();
  }

  wait(seconds: number): Promise<void> {
    return new Promise((resolve) => {
      const wake = () => {
        clearTimeout(timer);
        this.#waiting.delete(wake);
        resolve();
      };
      const timer = setTimeout(wake, Math.min(Math.max(seconds, 0), 2e6) * 1000);
      this.#waiting.add(wake);
    });
  }
}

/**
 * Runs handlers for the jobs of some queues.
 *
 *     const worker = new Worker(new Client(), { queues: ["mail"] });
 *     worker.handle("welcome", async (claim) => ({ sent: await send(claim.args.to) }));
 *     await worker.run();
 *
 * What a handler returns is the job's result. An error is a failure that is tried
 * again later, Permanent sets the job aside at once, Snooze gives it back without
 * blame. A job may run more than once (after a crash nobody knows how far it came):
 * see Claim.effect. Handlers share one thread with the renewals of the lease: one
 * that computes for longer than a third of it without an await loses it.
 */
export class Worker {
  readonly lease: number;
  readonly counts = { claimed: 0, recorded: 0, fenced: 0, lost: 0 };
  readonly #queues: readonly string[];
  readonly #name: string;
  readonly #concurrency: number;
  readonly #grace: number;
  readonly #wait: number;
  readonly #log: Log;
  readonly #handlers = new Map<string | null, Handler>();
  readonly #bell = new Bell();

  #session: string | undefined;
  #trust = 0; // until when the lease holds by this process's clock
  #held = new Map<string, Claim>();
  #queue: Claim[] = [];
  #outbox: Ending[] = [];
  #running = 0;
  #listings = 0;
  #quiet = false;
  #stopping = false;
  #atOnce = false;
  #hard = false;
  #drain = false;
  #fatal: DaybookError | undefined;
  #cut: AbortController | undefined;
  #renewing: Promise<number> | undefined;
  #again = new Backoff();

  constructor(
    readonly client: Client,
    options: WorkerOptions,
  ) {
    this.#queues = [...options.queues];
    this.#concurrency = options.concurrency ?? 10;
    this.lease = options.lease ?? 30;
    if (this.#queues.length === 0) throw new TypeError("queues wants at least one queue's name");
    if (!(this.#concurrency >= 1)) throw new TypeError(`concurrency wants 1 or more, got ${this.#concurrency}`);
    if (!(this.lease >= 1 && this.lease <= 86400)) {
      throw new TypeError(`lease wants 1 to 86400 seconds, got ${this.lease}`);
    }
    this.#name = options.name ?? (hostName() || "worker");
    this.#grace = Math.max(0, options.grace ?? 25);
    this.#wait = options.wait ?? Math.min(20, this.lease * 0.3);
    this.#log = options.log ?? console;
  }

  /** Registers the handler of a kind of job. A kind of null is every kind that has none
   * of its own. Register before run. */
  handle(kind: string | null, handler: Handler): this {
    if (this.#handlers.has(kind)) throw new TypeError(`${kind} has two handlers; register one`);
    this.#handlers.set(kind, handler);
    return this;
  }

  /** Works until it is stopped. When it ends, what hasn't begun is given back at once,
   * handlers get the grace, and what is left after it is given back too. Throws
   * DaybookError when the server refuses the worker: a wrong token, a queue that is no
   * name. */
  async run(options: RunOptions = {}): Promise<void> {
    if (this.#handlers.size === 0) throw new TypeError("the worker has no handler; register one with handle");
    this.#reset(options.drain ?? false);
    const caught = () => this.stop({ now: this.#stopping });
    const signals = options.signals === false || typeof process === "undefined" ? [] : ["SIGTERM", "SIGINT"];
    for (const signal of signals) process!.on(signal, caught);
    this.#log.info(`daybook: worker ${this.#name} starts, queues ${this.#queues.join(", ")}`);
    const loops = [this.#claims(), this.#renewals(), this.#outcomes()].map((loop) => this.#guarded(loop));
    try {
      await this.#watch();
      await this.#shutDown();
    } finally {
      this.#stopping = this.#hard = true;
      this.#bell.ring();
      for (const signal of signals) process!.off(signal, caught);
    }
    await Promise.race([Promise.all(loops), sleep(2)]);
    await this.#sayGoodbye();
    this.#log.info(`daybook: worker ${this.#name} stopped`);
    if (this.#fatal !== undefined) throw this.#fatal;
  }

  #reset(drain: boolean): void {
    this.#session = this.#fatal = this.#cut = undefined;
    this.#held = new Map();
    this.#queue = [];
    this.#outbox = [];
    this.#trust = this.#running = this.#listings = 0;
    this.#quiet = this.#stopping = this.#atOnce = this.#hard = false;
    this.#drain = drain;
  }

  /** Ends run; now without the grace. */
  stop(options: { now?: boolean } = {}): void {
    this.#stopping = true;
    this.#atOnce ||= options.now ?? false;
    // A call without a session may be making one; its answer comes soon.
    if (this.#session !== undefined) this.#cut?.abort();
    this.#bell.ring();
  }

  /** A loop that a fault ends takes the worker with it: one that seems to work and
   * renews nothing is worse. */
  async #guarded(loop: Promise<void>): Promise<void> {
    try {
      await loop;
    } catch (e) {
      this.#die(new DaybookError("fault", "a loop of the worker failed by a fault of its own", { cause: e }));
    }
  }

  #die(e: DaybookError): void {
    if (this.#fatal === undefined) {
      this.#fatal = e;
      this.#log.error(`daybook: the worker stops: ${e.message}`);
    }
    this.stop();
  }

  /** Until the worker stops: ends handlers when the lease runs out. */
  async #watch(): Promise<void> {
    while (!this.#stopping) await this.#bell.wait(this.#distrust());
  }

  /** Ends handlers when the lease ran out by this process's clock, and returns when to
   * look again. */
  #distrust(): number {
    if (this.#session === undefined) return 1;
    const left = this.#trust - now();
    if (left > 0) return left;
    const running = [...this.#held.values()].filter((c) => c.state === "running" && !c.signal.aborted);
    for (const claim of running) claim.end(new LeaseLost("the lease could not be renewed in time"));
    if (running.length > 0) {
      this.#log.warn(`daybook: the lease could not be renewed in time; ${running.length} handlers are told to stop`);
    }
    return 1;
  }

  async #shutDown(): Promise<void> {
    for (const claim of this.#queue.splice(0)) this.#giveBack(claim);
    await this.#settled(this.#grace, () => this.#atOnce);
    for (const claim of this.#held.values()) {
      if (claim.state === "running") claim.end(new Stopping());
    }
    await this.#settled(this.#atOnce ? 0.1 : settleMost, () => false);
    const left = [...this.#held.values()].filter((c) => c.state === "running").length;
    if (left > 0) this.#log.warn(`daybook: ${left} handlers go on after the grace; their jobs are given back`);
  }

  async #settled(most: number, short: () => boolean): Promise<void> {
    const until = now() + most;
    while (this.#holds() && now() < until && !short()) {
      await this.#bell.wait(Math.min(until - now(), this.#distrust()));
    }
  }

  /** Whether there is something to wait for. Outcomes that the server refuses to hear
   * are not. */
  #holds(): boolean {
    const deaf = this.#fatal?.code === "unauthorized" || this.#fatal?.code === "forbidden";
    return deaf ? [...this.#held.values()].some((c) => c.state === "running") : this.#held.size > 0;
  }

  /** Ends the session, which gives back what it still owns. When the server is away
   * the lease does that. */
  async #sayGoodbye(): Promise<void> {
    const session = this.#session;
    this.#session = undefined;
    if (session === undefined || this.#fatal?.code === "unauthorized") return;
    try {
      await this.client.call("endSession", { path: { session }, patience: 1, timeout: 2 });
    } catch (e) {
      if (e instanceof DaybookError && e.ended) return;
      this.#log.warn(`daybook: the session could not be ended, its lease will run out: ${e}`);
    }
  }

  // What effects and claims use.

  /** @internal One call that isn't repeated here. */
  call<Name extends keyof Operations>(name: Name, o: CallOptions<Name>): Promise<Operations[Name]["answer"]> {
    return this.client.call(name, { patience: 0, timeout: this.#patience(), ...o });
  }

  /** @internal Seconds that the lease still holds by this process's clock. */
  leaseLeft(): number {
    return this.#session === undefined ? 0 : this.#trust - now();
  }

  /** @internal Notes that a claim isn't the worker's any more. */
  lose(claim: Claim): void {
    this.#lose(claim);
  }

  /** @internal Pauses; false when the worker has ended. */
  async sleep(seconds: number): Promise<boolean> {
    const until = now() + seconds;
    while (!this.#hard && now() < until) await this.#bell.wait(until - now());
    return !this.#hard;
  }

  #patience(): number {
    return Math.min(this.lease, 10);
  }

  // Claims.

  async #claims(): Promise<void> {
    let call: ClaimCall | undefined;
    const again = new Backoff();
    while (!this.#stopping) {
      if (this.#quiet || this.#free() <= 0) {
        if (this.#quiet && this.#drain && this.#held.size === 0) return this.stop();
        await this.#bell.wait(60);
        continue;
      }
      if (call === undefined || call.session !== this.#session) call = this.#newCall();
      const listings = this.#listings;
      const sent = now();
      let answer: Operations["claim"]["answer"];
      try {
        answer = await this.#claim(call);
      } catch (e) {
        if (!(e instanceof DaybookError)) throw e;
        await this.#claimFailed(call, e, again);
        continue;
      }
      again.healed();
      if (answer.claims.length > 0 && this.#listings !== listings && this.#listings - call.listings >= 2) {
        // Two renewals that didn't name these claims may have given them back. The
        // repeat answers what is still owned.
        call.repeated = true;
        continue;
      }
      await this.#claimed(call, answer, now() - sent);
      call = undefined;
    }
  }

  #newCall(): ClaimCall {
    const wait = this.#session === undefined || this.#drain ? 0 : this.#wait;
    const [session, limit, listings] = [this.#session, this.#free(), this.#listings];
    return { session, limit, wait, listings, key: newId(), first: now(), repeated: false };
  }

  #claim(call: ClaimCall): Promise<Operations["claim"]["answer"]> {
    this.#cut = new AbortController();
    const kinds = this.#handlers.has(null) ? {} : { kinds: [...this.#handlers.keys()].map(String).sort() };
    return this.client.call("claim", {
      body: {
        queues: [...this.#queues], limit: call.limit, starts: true, wait_seconds: call.wait, ...kinds,
        ...(call.session === undefined ? { worker: this.#name, lease_seconds: this.lease } : { session: call.session }),
      },
      key: call.key, signal: this.#cut.signal, patience: 0, timeout: call.wait + this.#patience(),
    });
  }

  async #claimFailed(call: ClaimCall, e: DaybookError, again: Backoff): Promise<void> {
    if (this.#stopping) return;
    if (e.ended && call.session !== undefined) return this.#endSession(call.session, e);
    if (fatal.has(e.code)) return this.#die(e);
    if (again.tries === 0) this.#log.warn(`daybook: a claim failed; it is made again until it succeeds: ${e.message}`);
    call.repeated = true;
    await this.#pause(again.after(e));
  }

  async #pause(seconds: number): Promise<void> {
    const until = now() + seconds;
    while (!this.#stopping && now() < until) await this.#bell.wait(until - now());
  }

  /** Takes claims over. */
  async #claimed(call: ClaimCall, answer: Operations["claim"]["answer"], took: number): Promise<void> {
    const fresh = this.#session === undefined;
    if (fresh) {
      this.#session = answer.session;
      this.#trust = call.first + this.lease;
      this.#bell.ring();
    }
    if (answer.session !== this.#session || this.#stopping) return; // the end of its session gives them back
    for (const given of answer.claims) {
      const claim = new Claim(this, answer.session, given.job, given.generation);
      if (this.#held.has(claim.ref)) continue;
      this.#held.set(claim.ref, claim);
      this.#queue.push(claim);
      this.counts.claimed++;
    }
    if (this.#trust - now() < this.lease / 2) await this.renew(); // the answer was long on its way
    this.#fill();
    if (answer.claims.length > 0) return;
    if (this.#drain) {
      if (this.#held.size === 0 && !call.repeated) this.stop();
      while (this.#held.size > 0 && !this.#stopping) await this.#bell.wait(1); // what fails may be eligible again
    } else if (!fresh && took < call.wait / 2) {
      await this.#pause(0.8 + 0.4 * Math.random()); // the server didn't wait as long as it was asked to
    }
  }

  #free(): number {
    return this.#concurrency - this.#running - this.#queue.length;
  }

  /** Starts what waits. Nothing begins when the lease doesn't hold by this process's clock. */
  #fill(): void {
    while (this.#queue.length > 0 && !this.#stopping && this.leaseLeft() > 0 && this.#running < this.#concurrency) {
      void this.#slot(this.#queue.shift()!);
    }
  }

  #giveBack(claim: Claim): void {
    claim.state = "returned";
    this.#report(claim, { outcome: "released" });
  }

  /** Lets go of a session that the book ended. Its claims are lost. */
  #endSession(session: string, e: DaybookError): void {
    if (this.#session !== session) return;
    this.#session = undefined;
    this.#trust = 0;
    for (const claim of [...this.#held.values()]) {
      if (claim.session === session) this.#lose(claim);
    }
    this.#bell.ring();
    this.#log.warn(`daybook: the book ended this worker's session; it starts a new one: ${e.message}`);
  }

  // The lease.

  async #renewals(): Promise<void> {
    for (let pause = this.#renewEvery(); await this.sleep(pause); ) pause = await this.renew();
  }

  #renewEvery(): number {
    return (this.lease / 3) * (0.9 + 0.1 * Math.random());
  }

  /** @internal Makes one renewal now, and returns when to make the next. */
  renew(): Promise<number> {
    this.#renewing ??= this.#renew().finally(() => (this.#renewing = undefined));
    return this.#renewing;
  }

  async #renew(): Promise<number> {
    const session = this.#session;
    if (session === undefined) return Math.min(1, this.#renewEvery());
    // All that is held: what two renewals don't name is taken back.
    const claims = [...this.#held.values()]
      .filter((c) => c.session === session && !c.lost)
      .map((c): ClaimRef => ({ id: c.id, generation: c.generation }));
    this.#listings++;
    const sent = now();
    try {
      const timeout = this.lease / 3;
      const answer = await this.client.call("renew", { path: { session }, body: { claims }, patience: 0, timeout });
      this.#again.healed();
      this.#renewed(session, sent, answer);
      return Math.max(0, this.#renewEvery() - (now() - sent));
    } catch (e) {
      if (!(e instanceof DaybookError)) throw e;
      if (e.ended) this.#endSession(session, e);
      else if (fatal.has(e.code)) this.#die(e);
      else if (this.#again.tries === 0) {
        this.#log.warn(`daybook: the lease is not renewed; it is tried again: ${e.message}`);
      }
      return Math.min(this.#again.after(e), this.lease / 10);
    }
  }

  #renewed(session: string, sent: number, answer: Renewed): void {
    if (this.#session !== session) return;
    this.#trust = Math.max(this.#trust, sent + this.lease);
    this.#quiet ||= answer.quiet ?? false;
    for (const ref of answer.lost) {
      const claim = this.#held.get(`${ref.id} ${ref.generation}`);
      if (claim !== undefined) this.#lose(claim);
    }
    for (const ref of answer.cancel) {
      const claim = this.#held.get(`${ref.id} ${ref.generation}`);
      if (claim?.state === "queued") {
        this.#queue.splice(this.#queue.indexOf(claim), 1);
        this.#giveBack(claim); // which makes it cancelled
      } else claim?.end(new Cancelled());
    }
    this.#fill(); // what waited while the lease was in doubt
    this.#bell.ring();
  }

  /** Ends what is done for a lost claim. One whose handler returned is left to be
   * answered by the book. */
  #lose(claim: Claim): void {
    if (claim.lost || claim.state === "returned") return;
    this.counts.lost++;
    if (claim.state === "queued") {
      this.#queue.splice(this.#queue.indexOf(claim), 1);
      this.#drop(claim);
    }
    claim.end(new LeaseLost());
    this.#bell.ring();
  }

  #drop(claim: Claim): void {
    if (this.#held.get(claim.ref) === claim) this.#held.delete(claim.ref);
    this.#bell.ring();
  }

  // Handlers.

  async #slot(claim: Claim): Promise<void> {
    claim.state = "running";
    this.#running++;
    const how = await this.#attempt(claim);
    if (this.#held.get(claim.ref) !== claim) return; // it is of a run that is over
    claim.state = "returned";
    this.#running--;
    this.#report(claim, how);
  }

  /** Runs the handler and says how it ended, whatever it did. */
  async #attempt(claim: Claim): Promise<HowEnded> {
    let result: unknown;
    try {
      if (claim.job.on_lost === "set_aside" && !(await this.#started(claim))) return { outcome: "released" };
      const handler = this.#handlers.get(claim.job.kind) ?? this.#handlers.get(null);
      result = await handler!(claim);
    } catch (e) {
      return this.#failed(claim, e);
    }
    if (claim.setAside) return { outcome: "released" }; // the attempt has ended, in the book already
    if (result === undefined) return { outcome: "succeeded" };
    try {
      return { outcome: "succeeded", result: Json.of(result) };
    } catch (e) {
      return { ...failure(e), error: `the result can't be written as JSON: ${e}`, permanent: true };
    }
  }

  /** Records the start of an attempt whose loss a person must judge, before its handler
   * begins: what has no start recorded never began. */
  async #started(claim: Claim): Promise<boolean> {
    const again = new Backoff();
    while (!claim.signal.aborted) {
      try {
        const body = [{ id: claim.id, generation: claim.generation }];
        await this.call("started", { path: { session: claim.session }, body });
        return !claim.signal.aborted;
      } catch (e) {
        if (!(e instanceof DaybookError)) throw e;
        if (e.ended) this.#lose(claim);
        if (!e.passing) return false;
        await sleep(again.after(e), claim.signal);
      }
    }
    return false;
  }

  /** What a handler's error means for the job. */
  #failed(claim: Claim, e: unknown): HowEnded {
    const cause = claim.signal.reason;
    if (claim.setAside) return { outcome: "released" };
    if (e instanceof Snooze) return { outcome: "released", in_seconds: e.seconds };
    if (e instanceof Permanent) return { ...failure(e), permanent: true };
    if ([cause, e].some((why) => why instanceof LeaseLost || why instanceof Stopping)) {
      return { outcome: "released" }; // the worker broke it off, whatever the handler calls it
    }
    const aborted = e === cause || (e as { name?: unknown } | null)?.name === "AbortError";
    if (cause instanceof Cancelled && aborted) return { outcome: "released" }; // the book makes it cancelled
    return failure(e);
  }

  // Outcomes.

  #report(claim: Claim, how: HowEnded, instead = false): void {
    this.#outbox.push({ claim, row: { ...how, id: claim.id, ...claim.owner }, instead });
    this.#bell.ring();
  }

  async #outcomes(): Promise<void> {
    while (!this.#hard) {
      if (this.#outbox.length === 0) await this.#bell.wait(60);
      else await this.#record(this.#take());
    }
  }

  #take(): Ending[] {
    let n = 0;
    for (let size = 0; n < this.#outbox.length && n < rowsMost; n++) {
      const { row } = this.#outbox[n]!;
      size += (row.result?.text.length ?? 0) * 3 + (row.error?.length ?? 0) + (row.trace?.length ?? 0);
      if (n > 0 && size > bytesMost) break;
    }
    return this.#outbox.splice(0, n);
  }

  /** Sends outcomes until the book answers: their claims stay listed so long. When it
   * refuses the call as a whole, each is sent alone. */
  async #record(batch: Ending[]): Promise<void> {
    const again = new Backoff();
    for (;;) {
      try {
        const answers = await this.call("outcomes", { body: batch.map((one) => one.row) });
        if (answers.length !== batch.length) {
          throw new DaybookError("bad_answer", "answers and outcomes differ in number");
        }
        const busy = batch.filter((one, i) => this.#answered(one, answers[i]!));
        if (busy.length > 0) await this.sleep(0.2 * (0.5 + Math.random()));
        this.#outbox.push(...busy);
        return;
      } catch (e) {
        if (!(e instanceof DaybookError)) throw e;
        if (e.code === "unauthorized" || e.code === "forbidden") this.#die(e);
        else if (!e.passing && batch.length > 1) {
          for (const one of batch) await this.#record([one]);
          return;
        } else if (!e.passing && again.tries >= triesMost) {
          const one = batch[0]!;
          this.#answered(one, { id: one.row.id, already: false, code: e.code, detail: e.detail });
          return;
        }
        if (again.tries === 0) this.#log.warn(`daybook: outcomes are not recorded; they are sent again: ${e.message}`);
        if (!(await this.sleep(again.after(e)))) return;
      }
    }
  }

  /** Lets go of what the book recorded or refused. True is for what must be sent again. */
  #answered(one: Ending, answer: OutcomeAnswer): boolean {
    const { claim, row } = one;
    const { code, detail = "" } = answer;
    if (code === "busy" || code === "unavailable") return true;
    if (code !== undefined && code !== "fenced" && code !== "not_found" && !one.instead) {
      // Refused for what it says: a success with an open effect, a result that can't
      // be kept. The attempt fails then.
      this.#report(claim, { outcome: "failed", error: `${code}: ${detail}`, error_kind: code }, true);
      return false;
    }
    this.counts[code === undefined ? "recorded" : "fenced"]++;
    this.#drop(claim);
    const what = `daybook: job ${claim.id}, generation ${claim.generation}`;
    if (code !== undefined) this.#log.warn(`${what}: ${row.outcome} was refused (${code}): ${detail}`);
    else if (row.outcome === "failed") this.#log.info(`${what}: failed: ${row.error}`);
    return false;
  }
}

function failure(e: unknown): HowEnded {
  const known = e instanceof Error;
  const how: HowEnded = { outcome: "failed", error: storable(known ? e.message || e.name : String(e)) };
  how.error_kind = known ? e.constructor.name || e.name : typeof e;
  if (known && e.stack !== undefined) how.trace = storable(e.stack);
  return how;
}

/** The text without lone surrogates, cut well past the server's own limit. */
function storable(text: string): string {
  return new TextDecoder().decode(new TextEncoder().encode(text.slice(0, 64 << 10)));
}
