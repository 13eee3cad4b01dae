/** A client and a worker for Daybook, a durable job system. README.md has the tour. */
export type * from "./api.js";
export { Client, newId, type CallOptions, type ClientOptions, type NewJob } from "./client.js";
export {
  ask, checked, keyed, repeatable,
  type EffectOptions, type Found, type OutsideCall, type Policy, type Probe, type Span,
} from "./effects.js";
export { Cancelled, DaybookError, LeaseLost, NotHappened, Permanent, Snooze, Stopping } from "./errors.js";
export { Decimal, Json, parse, stringify } from "./exact.js";
export { Claim, Worker, type Handler, type Log, type WorkerOptions } from "./worker.js";
