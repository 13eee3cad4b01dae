import type { ClaimRef, FieldError } from "./api.js";

/** Codes of a call that may fare better a little later. The last two are the
 * client's own: no answer came, or one that isn't the API's. */
const passing = new Set(["busy", "rate_limited", "unavailable", "internal", "unreachable", "bad_answer"]);

/** What an error of a call may say beside its code. */
export interface ErrorDetails {
  status?: number;
  errors?: FieldError[];
  lost?: ClaimRef[];
  retryAfter?: number | undefined;
  sent?: boolean;
  cause?: unknown;
}

/**
 * An error of a call. `code` is for programs: the API's own (fenced, refused,
 * effect_open, invalid, key_conflict, unauthorized, …), or `unreachable` when no
 * answer came and `bad_answer` when one came that the API doesn't give, like a page
 * of a proxy.
 */
export class DaybookError extends Error {
  override readonly name: string = "DaybookError";
  /** Of HTTP; 0 when no answer came. */
  readonly status: number;
  /** Which part of the request is to blame. */
  readonly errors: FieldError[];
  /** Of started: claims that are lost. */
  readonly lost: ClaimRef[];
  /** Seconds, where the answer says when to come again. */
  readonly retryAfter: number | undefined;
  /** False when the server certainly never saw the call. */
  readonly sent: boolean;

  constructor(
    readonly code: string,
    readonly detail: string,
    more: ErrorDetails = {},
  ) {
    super(`${code}: ${detail}`, { cause: more.cause });
    this.status = more.status ?? 0;
    this.errors = more.errors ?? [];
    this.lost = more.lost ?? [];
    this.retryAfter = more.retryAfter;
    this.sent = more.sent ?? true;
  }

  /** Whether the same call may fare better a little later. */
  get passing(): boolean {
    return passing.has(this.code);
  }

  /** Whether the session, or the claim, is not known any more. */
  get ended(): boolean {
    return this.code === "fenced" || this.code === "not_found";
  }
}

/** Another worker may run this job: the book took it back, or the lease couldn't be
 * renewed in time. */
export class LeaseLost extends DaybookError {
  override readonly name = "LeaseLost";
  constructor(detail = "the lease is lost; another worker may run this job", cause?: unknown) {
    super("fenced", detail, { cause });
  }
}

/** A person asked to cancel the job. */
export class Cancelled extends DaybookError {
  override readonly name = "Cancelled";
  constructor() {
    super("refused", "the job was asked to cancel");
  }
}

/** The worker stops, and its grace is over. */
export class Stopping extends DaybookError {
  override readonly name = "Stopping";
  constructor() {
    super("unavailable", "the worker stops");
  }
}

/** Thrown by a handler: trying again can't cure this; the job is set aside. */
export class Permanent extends Error {
  override readonly name = "Permanent";
}

/** Thrown by a handler: give the job back without blame, to be tried again after so
 * many seconds; at once with 0. */
export class Snooze extends Error {
  override readonly name = "Snooze";
  readonly seconds: number;
  constructor(seconds = 0, why = `the job was given back for ${seconds} s`) {
    super(why);
    this.seconds = Math.min(Math.max(0, seconds), 10 * 365 * 86400);
  }
}

/** Thrown by the function of an effect: the call certainly had no effect, as when the
 * connection was refused or the destination said no. Any other error leaves the
 * effect open: a timeout is not a no. */
export class NotHappened extends Error {
  override readonly name = "NotHappened";
}
