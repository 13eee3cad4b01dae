import * as api from "./api.js";
import type { Operations } from "./api.js";
import { DaybookError } from "./errors.js";
import { Json, parseAnswer, stringify } from "./exact.js";

declare const process: { env: Record<string, string | undefined> } | undefined;

/** An answer is not larger than this: a page of jobs, each with args and result. */
const answerMax = 256 << 20;
/** A call that waits for work may be answered so much later than it asked for. */
const slack = 15;

export interface ClientOptions {
  /** Default DAYBOOK_SERVER, else this machine's http://127.0.0.1:7373. */
  server?: string;
  /** Default DAYBOOK_TOKEN, else none. */
  token?: string;
  /** Seconds for which a call that gets no answer is made again; 30 without. */
  patience?: number;
  /** Seconds that one call may take; 10 without. */
  timeout?: number;
}

export interface CallOptions<Name extends keyof Operations> {
  body?: Operations[Name]["body"];
  query?: Operations[Name] extends { query: infer Query extends object } ? Query : never;
  path?: Record<string, string>;
  key?: string;
  patience?: number;
  timeout?: number;
  signal?: AbortSignal | undefined;
}

/** A job to enqueue: as the API has it, but args may be any value and times a Date. */
export type NewJob = Omit<api.JobBody, "args" | "run_at" | "expires_at"> & {
  args?: unknown;
  run_at?: string | Date;
  expires_at?: string | Date;
};

/** A new UUID, of version 7: such sort by when they were made. */
export function newId(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  new DataView(bytes.buffer).setBigUint64(0, (BigInt(Date.now()) << 16n) | BigInt(bytes[6]! << 8) | BigInt(bytes[7]!));
  bytes[6] = (bytes[6]! & 0x0f) | 0x70;
  bytes[8] = (bytes[8]! & 0x3f) | 0x80;
  const hex = Array.from(bytes, (b) => b.toString(16).padStart(2, "0")).join("");
  return hex.replace(/^(.{8})(.{4})(.{4})(.{4})/, "$1-$2-$3-$4-");
}

/** Pauses between calls that fail, in seconds: from 50 ms doubling to 5 s, spread by
 * half, or what the server asks for. */
export class Backoff {
  tries = 0;

  after(error: DaybookError, most = 60): number {
    let pause = Math.min(0.05 * 2 ** Math.min(this.tries, 10), 5) * (0.5 + Math.random());
    this.tries++;
    if (error.retryAfter !== undefined) pause = Math.max(pause, error.retryAfter * (1 + 0.1 * Math.random()));
    return Math.min(pause, most);
  }

  healed(): void {
    this.tries = 0;
  }
}

/** Waits so many seconds, or until the signal aborts. */
export function sleep(seconds: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal?.aborted) return resolve();
    const done = () => {
      clearTimeout(timer);
      signal?.removeEventListener("abort", done);
      resolve();
    };
    const timer = setTimeout(done, Math.min(seconds, 2e6) * 1000);
    signal?.addEventListener("abort", done);
  });
}

/**
 * Speaks to one server. A call that gets no answer, or 429 or 503, is made again for
 * `patience` seconds; calls that would do something twice are so only when the
 * server certainly never saw them. Errors are DaybookError, by `code`.
 */
export class Client {
  readonly #base: string;
  readonly #headers: Record<string, string>;
  readonly #patience: number;
  readonly #timeout: number;
  /** Seconds that the server's clock was ahead at the last answer, where it was more than one. */
  clockOff = 0;

  constructor(options: ClientOptions = {}) {
    const env = typeof process === "undefined" ? {} : process.env;
    const url = new URL(options.server ?? (env["DAYBOOK_SERVER"] || "http://127.0.0.1:7373"));
    if (url.protocol !== "http:" && url.protocol !== "https:") {
      throw new TypeError("server wants a URL like http://127.0.0.1:7373");
    }
    if (url.username || url.password) throw new TypeError("server's URL holds a password; give the token as token");
    const token = options.token ?? env["DAYBOOK_TOKEN"];
    if (token !== undefined && token !== "" && !/^[\x21-\x7e]+$/.test(token)) {
      throw new TypeError("token wants what daybook token create printed");
    }
    this.#base = url.origin + url.pathname.replace(/\/+$/, "");
    this.#headers = { Accept: "application/json", ...(token ? { Authorization: `Bearer ${token}` } : {}) };
    this.#patience = options.patience ?? 30;
    this.#timeout = options.timeout ?? 10;
  }

  /** Put one job in. The same key with the same queue, kind and args is the same job.
   * Without key and id the client chooses the id, so that it can repeat the call:
   * then `replayed` may also say that its first answer was lost. */
  enqueue(job: NewJob): Promise<api.Receipt> {
    return this.call("enqueue", { body: newJob(job) });
  }

  /** Put many jobs in, all or none: at most 10,000 and 32 MiB. */
  async enqueueMany(jobs: readonly NewJob[]): Promise<api.Receipt[]> {
    return (await this.call("enqueueBatch", { body: jobs.map(newJob) })).jobs;
  }

  job(id: string): Promise<api.Job> {
    return this.call("getJob", { path: { id } });
  }

  jobs(query: api.JobQuery = {}): Promise<api.JobPage> {
    return this.call("listJobs", { query });
  }

  /** All that happened to a job, in time order. */
  async timeline(id: string): Promise<api.Event[]> {
    return (await this.call("getTimeline", { path: { id } })).events;
  }

  /** Why a job stands where it stands, and whether a retry is safe. */
  why(id: string): Promise<api.Why> {
    return this.call("whyJob", { path: { id } });
  }

  /** A job's attempts that ended, the oldest first. */
  async attempts(id: string): Promise<api.Attempt[]> {
    return (await this.call("listAttempts", { path: { id } })).attempts;
  }

  /** Cancel a job. A running one is asked to stop; force takes it away. */
  cancel(id: string, body: api.CancelBody): Promise<api.Job> {
    return this.call("cancelJob", { path: { id }, body });
  }

  /** Send a job that ended back to waiting. */
  revive(id: string, body: api.ReviveBody): Promise<api.Job> {
    return this.call("reviveJob", { path: { id }, body });
  }

  effects(query: api.EffectQuery = {}): Promise<api.EffectPage> {
    return this.call("listEffects", { query });
  }

  /** Say what an open effect did. */
  settle(id: string, name: string, body: Omit<api.SettleBody, "result"> & { result?: unknown }): Promise<api.Job> {
    return this.call("settleEffect", { path: { id, name }, body: withDocument(body) });
  }

  /** Claim jobs, or wait for some (wait_seconds, at most 60). The same call with the
   * same key gives the same claims again. */
  claim(body: api.ClaimBody, key = newId()): Promise<api.Claims> {
    return this.call("claim", { body, key });
  }

  claimJob(id: string, body: api.JobClaimBody = {}, key = newId()): Promise<api.Claims> {
    return this.call("claimJob", { path: { id }, body, key });
  }

  /** Extend a session's lease. claims is all that it believes to own: what two
   * renewals don't name is taken back. Without, all. */
  renew(session: string, claims?: api.ClaimRef[]): Promise<api.Renewed> {
    return this.call("renew", { path: { session }, body: claims ? { claims } : {} });
  }

  /** Record that handlers begin. Error fenced: see its `lost`; the others are recorded. */
  started(session: string, claims: api.ClaimRef[]): Promise<undefined> {
    return this.call("started", { path: { session }, body: claims });
  }

  /** End a session; what it still owns is given back. */
  endSession(session: string): Promise<undefined> {
    return this.call("endSession", { path: { session } });
  }

  complete(id: string, body: Omit<api.CompleteBody, "result"> & { result?: unknown }): Promise<api.Ended> {
    return this.call("complete", { path: { id }, body: withDocument(body) });
  }

  fail(id: string, body: api.FailBody): Promise<api.Ended> {
    return this.call("fail", { path: { id }, body });
  }

  release(id: string, body: api.ReleaseBody): Promise<api.Ended> {
    return this.call("release", { path: { id }, body });
  }

  progress(id: string, body: Omit<api.ProgressBody, "progress"> & { progress: unknown }): Promise<undefined> {
    return this.call("progress", { path: { id }, body: { ...body, progress: Json.of(body.progress) } });
  }

  outcomes(rows: api.OutcomeRow[]): Promise<api.OutcomeAnswer[]> {
    return this.call("outcomes", { body: rows });
  }

  beginEffect(id: string, name: string, body: api.BeginBody): Promise<api.Begun> {
    return this.call("beginEffect", { path: { id, name }, body: { call: newId(), ...body } });
  }

  finishEffect(
    id: string,
    name: string,
    body: Omit<api.FinishBody, "result"> & { result?: unknown },
  ): Promise<api.EffectEnded> {
    return this.call("finishEffect", { path: { id, name }, body: withDocument(body) });
  }

  /** One call by its operationId, repeated while that is safe and useful. */
  async call<Name extends keyof Operations>(
    name: Name,
    o: CallOptions<Name> = {},
  ): Promise<Operations[Name]["answer"]> {
    const route = api.routes[name];
    const address = this.#base + addressOf(route.path, o.path ?? {}, o.query);
    const text = route.method === "GET" ? undefined : stringify(o.body ?? {});
    const waits = (o.body as { wait_seconds?: number } | undefined)?.wait_seconds;
    const timeout = o.timeout ?? Math.max(this.#timeout, waits === undefined ? 0 : waits + slack);
    const until = performance.now() + (o.patience ?? this.#patience) * 1000;
    const again = new Backoff();
    for (;;) {
      try {
        return (await this.#once(name, address, text, o.key, timeout, o.signal)) as Operations[Name]["answer"];
      } catch (e) {
        if (!(e instanceof DaybookError)) throw e;
        const pause = again.after(e);
        const repeat = !route.once || !e.sent || ["busy", "rate_limited", "unavailable"].includes(e.code);
        if (!e.passing || !repeat || o.signal?.aborted || performance.now() + pause * 1000 > until) throw e;
        await sleep(pause, o.signal);
      }
    }
  }

  async #once(
    name: keyof Operations,
    address: string,
    body: string | undefined,
    key: string | undefined,
    timeout: number,
    signal: AbortSignal | undefined,
  ): Promise<unknown> {
    const headers: Record<string, string> = { ...this.#headers };
    if (body !== undefined) headers["Content-Type"] = "application/json";
    if (key !== undefined) headers["Idempotency-Key"] = `"${key}"`;
    const control = new AbortController();
    const stop = () => control.abort();
    const timer = setTimeout(stop, timeout * 1000);
    signal?.addEventListener("abort", stop);
    if (signal?.aborted) stop();
    try {
      const response = await fetch(address, {
        method: api.routes[name].method, headers, redirect: "manual", signal: control.signal,
        ...(body === undefined ? {} : { body }),
      });
      return this.#read(name, response, await textOf(response));
    } catch (e) {
      if (e instanceof DaybookError) throw e;
      throw unreachable(e, control.signal.aborted);
    } finally {
      clearTimeout(timer);
      signal?.removeEventListener("abort", stop);
    }
  }

  #read(name: keyof Operations, response: Response, text: string): unknown {
    const date = Date.parse(response.headers.get("Date") ?? "");
    const off = Number.isNaN(date) ? 0 : (date - Date.now()) / 1000;
    this.clockOff = off > -2 && off < 1 ? 0 : off; // Date has whole seconds
    const media = (response.headers.get("Content-Type") ?? "").split(";")[0]!.trim();
    const more = { status: response.status, retryAfter: retryAfter(response, this.clockOff) };
    const bad = (what: string) => {
      const detail = `HTTP ${response.status} with ${what}; is this the server, or a proxy on the way?`;
      return new DaybookError("bad_answer", detail, more);
    };
    let value: any;
    if (media === "application/json" || media === "application/problem+json") {
      try {
        value = parseAnswer(text);
      } catch {
        throw bad("an answer that isn't JSON");
      }
    }
    if (response.ok) {
      if (answerless.has(name)) return undefined;
      if (media !== "application/json") throw bad(`an answer of type ${media || "none"}`);
      if (!(shapes[name] ?? isObject)(value)) throw bad("JSON that isn't the answer of this call");
      return value;
    }
    if (media !== "application/problem+json" || typeof value?.code !== "string") throw bad("no word of the API");
    throw new DaybookError(value.code, String(value.detail ?? ""), { ...more, errors: value.errors, lost: value.lost });
  }
}

const answerless = new Set<keyof Operations>(["started", "endSession", "progress"]);

const isObject = (v: any): boolean => v !== null && typeof v === "object" && !Array.isArray(v);
const isRef = (v: any): boolean => isObject(v) && typeof v.id === "string" && Number.isSafeInteger(v.generation);
const isJob = (v: any): boolean =>
  isObject(v) && ["id", "kind", "queue", "state", "on_lost"].every((f) => typeof v[f] === "string") &&
  [v.failures, v.crashes].every(Number.isSafeInteger);
const all = (v: any, is: (item: any) => boolean): boolean => Array.isArray(v) && v.every(is);

/** What a worker reads blindly is looked at first. */
const shapes: { [name in keyof Operations]?: (v: any) => boolean } = {
  claim: (v) => isObject(v) && typeof v.session === "string" &&
    all(v.claims, (c) => isObject(c) && Number.isSafeInteger(c.generation) && isJob(c.job)),
  getJob: isJob,
  renew: (v) => isObject(v) && all(v.lost, isRef) && all(v.cancel, isRef),
  outcomes: (v) => all(v, (row) => isObject(row) && typeof row.id === "string"),
  beginEffect: (v) => isObject(v) && typeof v.decision === "string" && typeof v.key === "string",
};

async function textOf(response: Response): Promise<string> {
  if (response.body === null) return "";
  const reader = response.body.getReader();
  const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
  let text = "";
  for (let size = 0; ; ) {
    const { done, value } = await reader.read();
    if (done) return text + decoder.decode();
    size += value.byteLength;
    if (size > answerMax) {
      await reader.cancel();
      throw new DaybookError("bad_answer", `the answer is larger than ${answerMax} bytes`, { status: response.status });
    }
    text += decoder.decode(value, { stream: true });
  }
}

function unreachable(e: unknown, late: boolean): DaybookError {
  const cause = (e as { cause?: { code?: string; message?: string } }).cause;
  const unsent = ["ECONNREFUSED", "ENOTFOUND", "EAI_AGAIN", "UND_ERR_CONNECT_TIMEOUT"].includes(cause?.code ?? "");
  const said = late ? "no answer in time" : (cause?.message || cause?.code || String(e));
  const detail = unsent ? `the server can't be reached: ${said}` : said;
  return new DaybookError("unreachable", detail, { sent: !unsent, cause: e });
}

function retryAfter(response: Response, off: number): number | undefined {
  const given = response.headers.get("Retry-After");
  if (given === null) return undefined;
  const seconds = /^\d+(\.\d+)?$/.test(given) ? Number(given) : (Date.parse(given) - Date.now()) / 1000 - off;
  return Number.isNaN(seconds) ? undefined : Math.max(0, seconds);
}

function addressOf(path: string, names: Record<string, string>, query: object | undefined): string {
  const filled = path.replace(/\{(\w+)\}/g, (_, name: string) => {
    const value = names[name];
    if (value === undefined) throw new TypeError(`the call wants ${name}`);
    return encodeURIComponent(value);
  });
  const asked = new URLSearchParams();
  for (const [name, value] of Object.entries(query ?? {})) {
    if (value !== undefined) asked.set(name, String(value));
  }
  return asked.size > 0 ? `${filled}?${asked}` : filled;
}

function newJob(job: NewJob): api.JobBody {
  const { args, run_at, expires_at, ...rest } = job;
  const body: api.JobBody = { ...rest };
  if (args !== undefined) body.args = Json.of(args);
  if (run_at !== undefined) body.run_at = timeOf(run_at);
  if (expires_at !== undefined) body.expires_at = timeOf(expires_at);
  if (body.id === undefined && body.key === undefined) body.id = newId();
  return body;
}

function timeOf(t: string | Date): string {
  return typeof t === "string" ? t : t.toISOString();
}

function withDocument<Body extends { result?: unknown }>(body: Body): Omit<Body, "result"> & { result?: Json } {
  const { result, ...rest } = body;
  return result === undefined ? rest : { ...rest, result: Json.of(result) };
}
