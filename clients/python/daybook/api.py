"""The calls of the API and what they take and answer, as types.

A test holds every line of this page to the server's own description
(/openapi.json): names, types, and what is required. A type whose name begins
with an underscore is the required part of the one behind it.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Dict, List, NamedTuple, Tuple, TypedDict, get_args, get_origin, get_type_hints

from .exact import Json

__all__ = [
    "Attempt", "AttemptError", "Attempts", "BeginBody", "Begun", "CancelBody", "ClaimBody", "ClaimGiven",
    "ClaimRef", "Claims", "CompleteBody", "Effect", "EffectEnded", "EffectPage", "Ended", "Event", "FailBody",
    "FinishBody", "Job", "JobBody", "JobClaimBody", "JobPage", "OutcomeAnswer", "OutcomeRow", "ProgressBody",
    "Receipt", "Receipts", "ReleaseBody", "RenewBody", "Renewed", "ReviveBody", "SettleBody", "Timeline", "Why",
]  # fmt: skip


class _JobBody(TypedDict):
    queue: str
    kind: str


class JobBody(_JobBody, total=False):
    """One job to enqueue. ``args`` is anything that JSON has a form for."""

    args: Json
    id: str
    key: str
    run_at: str
    in_seconds: float
    expires_at: str
    priority: int
    max_failures: int
    on_lost: str
    timeout_seconds: float
    traceparent: str
    tracestate: str


class Receipt(TypedDict):
    id: str
    replayed: bool


class Receipts(TypedDict):
    jobs: List[Receipt]


class _AttemptError(TypedDict):
    text: str


class AttemptError(_AttemptError, total=False):
    kind: str
    trace: str
    cut: bool


class _Origin(TypedDict):
    system: str
    store: str
    queue: str
    id: str
    occurrence: int
    payload_hash: str


class Origin(_Origin, total=False):
    round: int


class _Job(TypedDict):
    id: str
    queue: str
    kind: str
    state: str
    priority: int
    run_at: str
    generation: int
    failures: int
    crashes: int
    max_failures: int
    on_lost: str
    enqueued_at: str


class Job(_Job, total=False):
    """A job. Times are RFC 3339 in UTC."""

    args: Json
    reason: str
    expires_at: str
    held_by: str
    key: str
    origin: Origin
    result: Json
    progress: Json
    last_error: AttemptError
    session: str
    worker: str
    lease_until: str
    cancel_requested_at: str
    claimed_at: str
    ended_at: str
    traceparent: str
    tracestate: str
    hidden: bool


class JobPage(TypedDict):
    jobs: List[Job]
    cursor: str


class _Event(TypedDict):
    at: str
    what: str
    detail: str


class Event(_Event, total=False):
    generation: int
    session: str
    actor: str
    reason: str


class Timeline(TypedDict):
    events: List[Event]


class _Safe(TypedDict):
    yes: bool
    grounds: str


class Safe(_Safe, total=False):
    open: List[str]


class _Why(TypedDict):
    id: str
    state: str
    because: str
    sentence: str


class Why(_Why, total=False):
    since: str
    safe_to_retry: Safe


class _Attempt(TypedDict):
    generation: int
    outcome: str


class Attempt(_Attempt, total=False):
    first: int
    count: int
    session: str
    worker: str
    claimed_at: str
    started_at: str
    ended_at: str
    error: AttemptError
    why: str


class Attempts(TypedDict):
    attempts: List[Attempt]


class ReviveBody(TypedDict, total=False):
    """A ``reason`` is wanted but of a ``dry_run``, which shows the job as it would become."""

    reason: str
    unsafe: bool
    dry_run: bool


class CancelBody(TypedDict, total=False):
    """A ``reason`` is wanted but of a ``dry_run``, which shows the job as it would become."""

    reason: str
    force: bool
    dry_run: bool


class ClaimRef(TypedDict):
    id: str
    generation: int


class _ClaimBody(TypedDict):
    queues: List[str]


class ClaimBody(_ClaimBody, total=False):
    kinds: List[str]
    worker: str
    session: str
    limit: int
    lease_seconds: float
    wait_seconds: float
    starts: bool
    oldest: bool


class JobClaimBody(TypedDict, total=False):
    queues: List[str]
    kinds: List[str]
    worker: str
    session: str
    lease_seconds: float
    starts: bool


class ClaimGiven(TypedDict):
    job: Job
    generation: int
    lease_until: str
    timeout_seconds: float


class _Claims(TypedDict):
    session: str
    lease_until: str
    claims: List[ClaimGiven]


class Claims(_Claims, total=False):
    full: bool


class RenewBody(TypedDict, total=False):
    claims: List[ClaimRef]


class _Renewed(TypedDict):
    lease_until: str
    lost: List[ClaimRef]
    cancel: List[ClaimRef]


class Renewed(_Renewed, total=False):
    quiet: bool


class _Owner(TypedDict):
    session: str
    generation: int


class CompleteBody(_Owner, total=False):
    result: Json


class _FailBody(_Owner):
    error: str


class FailBody(_FailBody, total=False):
    error_kind: str
    trace: str
    permanent: bool
    retry_in_seconds: float


class ReleaseBody(_Owner, total=False):
    in_seconds: float


class ProgressBody(_Owner):
    progress: Json


class Ended(TypedDict):
    id: str
    state: str
    already: bool


class _OutcomeRow(_Owner):
    id: str
    outcome: str


class OutcomeRow(_OutcomeRow, total=False):
    result: Json
    error: str
    error_kind: str
    trace: str
    cut: bool
    permanent: bool
    reason: str
    retry_in_seconds: float
    in_seconds: float


class _OutcomeAnswer(TypedDict):
    id: str
    already: bool


class OutcomeAnswer(_OutcomeAnswer, total=False):
    state: str
    code: str
    detail: str


class _BeginBody(_Owner):
    policy: str


class BeginBody(_BeginBody, total=False):
    window_seconds: float
    quiet_seconds: float
    call_seconds: float
    fingerprint: str
    next_key: bool
    call: str


class _Begun(TypedDict):
    decision: str
    key: str


class Begun(_Begun, total=False):
    result: Json
    wait_until: str
    call_until: str
    reason: str


class _FinishBody(_Owner):
    outcome: str


class FinishBody(_FinishBody, total=False):
    result: Json


class _EffectEnded(TypedDict):
    state: str
    job: str


class EffectEnded(_EffectEnded, total=False):
    doubled: bool
    already: bool


class _SettleBody(TypedDict):
    outcome: str
    reason: str


class SettleBody(_SettleBody, total=False):
    generation: int
    result: Json
    stay: bool


class _Late(TypedDict):
    generation: int
    at: str
    outcome: str


class Late(_Late, total=False):
    said: str


class _Effect(TypedDict):
    job: str
    name: str
    policy: str
    state: str
    generation: int
    key: str
    begun_at: str


class Effect(_Effect, total=False):
    round: int
    result: Json
    ended_at: str
    settled_by: str
    doubled: bool
    call_until: str
    safe_until: str
    late: List[Late]
    hidden: bool


class EffectPage(TypedDict):
    effects: List[Effect]
    cursor: str


class Operation(NamedTuple):
    """One call of the API."""

    method: str
    path: str
    body: Any  # type of the body; None for none
    answer: Any  # type of the answer; None for none
    query: Tuple[str, ...] = ()
    repeatable: bool = True  # may be sent again when its answer was lost


# By operationId.
OPERATIONS = {
    "enqueue": Operation("POST", "/v1/jobs", JobBody, Receipt),  # repeatable by its id or key
    "enqueueBatch": Operation("POST", "/v1/jobs/batch", List[JobBody], Receipts),
    "listJobs": Operation("GET", "/v1/jobs", None, JobPage,
                          ("queue", "kind", "state", "reason", "key", "held", "limit", "cursor")),
    "getJob": Operation("GET", "/v1/jobs/{id}", None, Job),
    "getTimeline": Operation("GET", "/v1/jobs/{id}/timeline", None, Timeline),
    "whyJob": Operation("GET", "/v1/jobs/{id}/why", None, Why),
    "listAttempts": Operation("GET", "/v1/jobs/{id}/attempts", None, Attempts),
    "cancelJob": Operation("POST", "/v1/jobs/{id}/cancel", CancelBody, Job, repeatable=False),
    "reviveJob": Operation("POST", "/v1/jobs/{id}/revive", ReviveBody, Job, repeatable=False),
    "claim": Operation("POST", "/v1/claims", ClaimBody, Claims),  # repeatable by its key
    "claimJob": Operation("POST", "/v1/jobs/{id}/claim", JobClaimBody, Claims),
    "renew": Operation("POST", "/v1/sessions/{session}/renew", RenewBody, Renewed),
    "started": Operation("POST", "/v1/sessions/{session}/started", List[ClaimRef], None),
    "endSession": Operation("POST", "/v1/sessions/{session}/end", None, None),
    "complete": Operation("POST", "/v1/jobs/{id}/complete", CompleteBody, Ended),
    "fail": Operation("POST", "/v1/jobs/{id}/fail", FailBody, Ended),
    "release": Operation("POST", "/v1/jobs/{id}/release", ReleaseBody, Ended),
    "progress": Operation("POST", "/v1/jobs/{id}/progress", ProgressBody, None),
    "outcomes": Operation("POST", "/v1/outcomes", List[OutcomeRow], List[OutcomeAnswer]),
    "beginEffect": Operation("POST", "/v1/jobs/{id}/effects/{name}/begin", BeginBody, Begun),
    "finishEffect": Operation("POST", "/v1/jobs/{id}/effects/{name}/finish", FinishBody, EffectEnded),
    "settleEffect": Operation("POST", "/v1/jobs/{id}/effects/{name}/settle", SettleBody, Job, repeatable=False),
    "listEffects": Operation("GET", "/v1/effects", None, EffectPage, ("open", "job", "limit", "cursor")),
}  # fmt: skip


@lru_cache(maxsize=None)
def _hints(kind: Any) -> Dict[str, Any]:
    return get_type_hints(kind)


def fits(value: Any, kind: Any) -> bool:
    """Whether an answer is what its type says. Fields that the type doesn't know
    may be there: a newer server has more."""
    if get_origin(kind) is list:
        (item,) = get_args(kind)
        return isinstance(value, list) and all(fits(v, item) for v in value)
    if hasattr(kind, "__required_keys__"):
        if not isinstance(value, dict) or not kind.__required_keys__ <= value.keys():
            return False
        hints = _hints(kind)
        return all(fits(v, hints[name]) for name, v in value.items() if name in hints)
    if isinstance(value, bool) and kind in (int, float):
        return False  # to Python a bool is an int
    return isinstance(value, (int, float) if kind is float else kind)  # JSON writes 86400.0 as 86400
