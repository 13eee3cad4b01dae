/**
 * The calls of the API and what they take and answer, as types. A test holds every
 * line of this page to the server's own description (/openapi.json): names, types,
 * and what is required. Times are RFC 3339 in UTC.
 */
import type { Json } from "./exact.js";

export interface JobBody {
  queue: string;
  kind: string;
  args?: Json;
  id?: string;
  key?: string;
  run_at?: string;
  in_seconds?: number;
  expires_at?: string;
  priority?: number;
  max_failures?: number;
  on_lost?: string;
  timeout_seconds?: number;
  traceparent?: string;
  tracestate?: string;
}

export interface Receipt {
  id: string;
  replayed: boolean;
}

export interface Receipts {
  jobs: Receipt[];
}

export interface AttemptError {
  text: string;
  kind?: string;
  trace?: string;
  cut?: boolean;
}

export interface Origin {
  system: string;
  store: string;
  queue: string;
  id: string;
  occurrence: number;
  payload_hash: string;
  round?: number;
}

export interface Job {
  id: string;
  queue: string;
  kind: string;
  state: string;
  priority: number;
  run_at: string;
  generation: number;
  failures: number;
  crashes: number;
  max_failures: number;
  on_lost: string;
  enqueued_at: string;
  args?: Json;
  reason?: string;
  expires_at?: string;
  held_by?: string;
  key?: string;
  origin?: Origin;
  result?: Json;
  progress?: Json;
  last_error?: AttemptError;
  session?: string;
  worker?: string;
  lease_until?: string;
  cancel_requested_at?: string;
  claimed_at?: string;
  ended_at?: string;
  traceparent?: string;
  tracestate?: string;
  hidden?: boolean;
}

export interface JobPage {
  jobs: Job[];
  cursor: string;
}

export interface Event {
  at: string;
  what: string;
  detail: string;
  generation?: number;
  session?: string;
  actor?: string;
  reason?: string;
}

export interface Timeline {
  events: Event[];
}

export interface Safe {
  yes: boolean;
  grounds: string;
  open?: string[];
}

export interface Why {
  id: string;
  state: string;
  because: string;
  sentence: string;
  since?: string;
  safe_to_retry?: Safe;
}

export interface Attempt {
  generation: number;
  outcome: string;
  first?: number;
  count?: number;
  session?: string;
  worker?: string;
  claimed_at?: string;
  started_at?: string;
  ended_at?: string;
  error?: AttemptError;
  why?: string;
}

export interface Attempts {
  attempts: Attempt[];
}

/** A reason is wanted but of a dry run, which shows the job as it would become. */
export interface ReviveBody {
  reason?: string;
  unsafe?: boolean;
  dry_run?: boolean;
}

/** A reason is wanted but of a dry run, which shows the job as it would become. */
export interface CancelBody {
  reason?: string;
  force?: boolean;
  dry_run?: boolean;
}

export interface ClaimRef {
  id: string;
  generation: number;
}

export interface ClaimBody {
  queues: string[];
  kinds?: string[];
  worker?: string;
  session?: string;
  limit?: number;
  lease_seconds?: number;
  wait_seconds?: number;
  starts?: boolean;
  oldest?: boolean;
}

export interface JobClaimBody {
  queues?: string[];
  kinds?: string[];
  worker?: string;
  session?: string;
  lease_seconds?: number;
  starts?: boolean;
}

export interface ClaimGiven {
  job: Job;
  generation: number;
  lease_until: string;
  timeout_seconds: number;
}

export interface Claims {
  session: string;
  lease_until: string;
  claims: ClaimGiven[];
  full?: boolean;
}

export interface RenewBody {
  claims?: ClaimRef[];
}

export interface Renewed {
  lease_until: string;
  lost: ClaimRef[];
  cancel: ClaimRef[];
  quiet?: boolean;
}

export interface CompleteBody {
  session: string;
  generation: number;
  result?: Json;
}

export interface FailBody {
  session: string;
  generation: number;
  error: string;
  error_kind?: string;
  trace?: string;
  permanent?: boolean;
  retry_in_seconds?: number;
}

export interface ReleaseBody {
  session: string;
  generation: number;
  in_seconds?: number;
}

export interface ProgressBody {
  session: string;
  generation: number;
  progress: Json;
}

export interface Ended {
  id: string;
  state: string;
  already: boolean;
}

export interface OutcomeRow {
  session: string;
  generation: number;
  id: string;
  outcome: string;
  result?: Json;
  error?: string;
  error_kind?: string;
  trace?: string;
  cut?: boolean;
  permanent?: boolean;
  reason?: string;
  retry_in_seconds?: number;
  in_seconds?: number;
}

export interface OutcomeAnswer {
  id: string;
  already: boolean;
  state?: string;
  code?: string;
  detail?: string;
}

export interface BeginBody {
  session: string;
  generation: number;
  policy: string;
  window_seconds?: number;
  quiet_seconds?: number;
  call_seconds?: number;
  fingerprint?: string;
  next_key?: boolean;
  call?: string;
}

export interface Begun {
  decision: string;
  key: string;
  result?: Json;
  wait_until?: string;
  call_until?: string;
  reason?: string;
}

export interface FinishBody {
  session: string;
  generation: number;
  outcome: string;
  result?: Json;
}

export interface EffectEnded {
  state: string;
  job: string;
  doubled?: boolean;
  already?: boolean;
}

export interface SettleBody {
  outcome: string;
  reason: string;
  generation?: number;
  result?: Json;
  stay?: boolean;
}

export interface Late {
  generation: number;
  at: string;
  outcome: string;
  said?: string;
}

export interface Effect {
  job: string;
  name: string;
  policy: string;
  state: string;
  generation: number;
  key: string;
  begun_at: string;
  round?: number;
  result?: Json;
  ended_at?: string;
  settled_by?: string;
  doubled?: boolean;
  call_until?: string;
  safe_until?: string;
  late?: Late[];
  hidden?: boolean;
}

export interface EffectPage {
  effects: Effect[];
  cursor: string;
}

export interface FieldError {
  pointer?: string;
  parameter?: string;
  detail: string;
}

export interface Problem {
  type: string;
  title: string;
  status: number;
  detail: string;
  code: string;
  errors?: FieldError[];
  lost?: ClaimRef[];
}

export interface JobQuery {
  queue?: string;
  kind?: string;
  state?: string;
  reason?: string;
  key?: string;
  held?: boolean;
  limit?: number;
  cursor?: string;
}

export interface EffectQuery {
  open?: boolean;
  job?: string;
  limit?: number;
  cursor?: string;
}

/** What each call takes and answers, by operationId; undefined is none. */
export interface Operations {
  enqueue: { body: JobBody; answer: Receipt };
  enqueueBatch: { body: JobBody[]; answer: Receipts };
  listJobs: { body: undefined; answer: JobPage; query: JobQuery };
  getJob: { body: undefined; answer: Job };
  getTimeline: { body: undefined; answer: Timeline };
  whyJob: { body: undefined; answer: Why };
  listAttempts: { body: undefined; answer: Attempts };
  cancelJob: { body: CancelBody; answer: Job };
  reviveJob: { body: ReviveBody; answer: Job };
  claim: { body: ClaimBody; answer: Claims };
  claimJob: { body: JobClaimBody; answer: Claims };
  renew: { body: RenewBody; answer: Renewed };
  started: { body: ClaimRef[]; answer: undefined };
  endSession: { body: undefined; answer: undefined };
  complete: { body: CompleteBody; answer: Ended };
  fail: { body: FailBody; answer: Ended };
  release: { body: ReleaseBody; answer: Ended };
  progress: { body: ProgressBody; answer: undefined };
  outcomes: { body: OutcomeRow[]; answer: OutcomeAnswer[] };
  beginEffect: { body: BeginBody; answer: Begun };
  finishEffect: { body: FinishBody; answer: EffectEnded };
  settleEffect: { body: SettleBody; answer: Job };
  listEffects: { body: undefined; answer: EffectPage; query: EffectQuery };
}

export interface Route {
  readonly method: "GET" | "POST";
  readonly path: string;
  /** It must not be sent again when its answer was lost. */
  readonly once?: true;
}

export const routes: { readonly [name in keyof Operations]: Route } = {
  enqueue: { method: "POST", path: "/v1/jobs" },
  enqueueBatch: { method: "POST", path: "/v1/jobs/batch" },
  listJobs: { method: "GET", path: "/v1/jobs" },
  getJob: { method: "GET", path: "/v1/jobs/{id}" },
  getTimeline: { method: "GET", path: "/v1/jobs/{id}/timeline" },
  whyJob: { method: "GET", path: "/v1/jobs/{id}/why" },
  listAttempts: { method: "GET", path: "/v1/jobs/{id}/attempts" },
  cancelJob: { method: "POST", path: "/v1/jobs/{id}/cancel", once: true },
  reviveJob: { method: "POST", path: "/v1/jobs/{id}/revive", once: true },
  claim: { method: "POST", path: "/v1/claims" },
  claimJob: { method: "POST", path: "/v1/jobs/{id}/claim" },
  renew: { method: "POST", path: "/v1/sessions/{session}/renew" },
  started: { method: "POST", path: "/v1/sessions/{session}/started" },
  endSession: { method: "POST", path: "/v1/sessions/{session}/end" },
  complete: { method: "POST", path: "/v1/jobs/{id}/complete" },
  fail: { method: "POST", path: "/v1/jobs/{id}/fail" },
  release: { method: "POST", path: "/v1/jobs/{id}/release" },
  progress: { method: "POST", path: "/v1/jobs/{id}/progress" },
  outcomes: { method: "POST", path: "/v1/outcomes" },
  beginEffect: { method: "POST", path: "/v1/jobs/{id}/effects/{name}/begin" },
  finishEffect: { method: "POST", path: "/v1/jobs/{id}/effects/{name}/finish" },
  settleEffect: { method: "POST", path: "/v1/jobs/{id}/effects/{name}/settle", once: true },
  listEffects: { method: "GET", path: "/v1/effects" },
};
