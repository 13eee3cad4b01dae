"""The ledger of outside actions, as a handler uses it.

The rules are the book's (docs/effects.md): what is done is not called again,
what is open is decided by the declared policy, and a timeout is not a no.
"""

from __future__ import annotations

import datetime
import hashlib
import time
from typing import TYPE_CHECKING, Any, Callable, Dict, Mapping, Optional, Union

from .client import Backoff, new_id
from .errors import DaybookError, LeaseLost, NotHappened, Over, Permanent, Snooze
from .exact import Json, dumps

if TYPE_CHECKING:
    from .worker import Claim

__all__ = ["Call", "Found", "Policy", "ask", "checked", "keyed", "repeatable"]

RESULT_MAX = 1 << 20

Seconds = Union[float, datetime.timedelta]


class Call:
    """One call outside, as the function of an effect gets it."""

    def __init__(self, claim: "Claim", key: str, until: float) -> None:
        self.claim = claim
        self.key = key  #: the same in every attempt: give it to the destination
        self._until = until

    def remaining(self) -> float:
        """How many seconds the call may still take, at least 0.001: give it to
        whatever makes the call as its timeout."""
        return max(0.001, self._until - time.monotonic())


class Found:
    """What a probe answers when the earlier call happened, with its result."""

    def __init__(self, result: Any = None) -> None:
        self.result = result


Probe = Callable[[Call], Optional[Found]]


class Policy:
    """What an open effect means for the next attempt."""

    def __init__(
        self, name: str, *, window: Optional[float] = None, quiet: Optional[float] = None,
        probe: Optional[Probe] = None,
    ) -> None:  # fmt: skip
        self.name, self.window, self.quiet, self.probe = name, window, quiet, probe


repeatable = Policy("repeatable")
"""For what may be done twice: call again."""

ask = Policy("ask")
"""For destinations that offer nothing: set the job aside, and a person says
whether it happened."""


def keyed(window: Optional[Seconds] = None, **span: float) -> Policy:
    """For destinations that do an action once for a key that they know. The
    window is how long they know it, counted from the first begin: keyed(days=1)."""
    return Policy("keyed", window=_seconds(window, span))


def checked(probe: Probe, quiet: Optional[Seconds] = None, **span: float) -> Policy:
    """For destinations that can be asked whether it happened. quiet is how long
    after a call was given up its trace may still appear: checked(look, minutes=5).
    The probe answers Found(result), or None when it didn't happen; when it raises,
    it can't tell, and a person is asked."""
    return Policy("checked", quiet=_seconds(quiet, span), probe=probe)


def _seconds(given: Optional[Seconds], span: Mapping[str, float]) -> float:
    if given is None:
        return datetime.timedelta(**span).total_seconds()
    if span:
        raise TypeError("give the time once: as a number of seconds, a timedelta, or in words")
    return given.total_seconds() if isinstance(given, datetime.timedelta) else float(given)


def perform(
    claim: "Claim", name: str, policy: Policy, fn: Callable[[Call], Any], *, input: Any, compared: bool,
    next_key: bool, limit: Optional[float],
) -> Any:  # fmt: skip
    """Asks the ledger, and does as it says."""
    most = claim.worker.lease / 2
    if limit is None:
        limit = min(most, policy.window) if policy.window else most
    if not 0 < limit <= most:
        raise ValueError("limit wants more than 0 and at most half of the worker's lease, %g s; got %g" % (most, limit))
    body: Dict[str, Any] = dict(claim.owner, policy=policy.name, call_seconds=limit)
    if policy.window is not None:
        body["window_seconds"] = policy.window
    if policy.quiet is not None:
        body["quiet_seconds"] = policy.quiet
    if next_key:
        body["next_key"] = True
    if compared:
        body["fingerprint"] = hashlib.sha256(dumps(_sorted(input)).encode()).hexdigest()[:32]
    probed = False
    while True:
        sent = time.monotonic()
        begun = _begin(claim, name, body, limit)
        decision = begun["decision"]
        if decision == "done":
            return _read(begun.get("result"))
        if decision == "call":
            return _call(claim, name, Call(claim, begun["key"], sent + limit), fn)
        if decision == "wait":
            raise Snooze(_until(claim, begun["wait_until"]), "effect %s is settling" % name)
        if decision == "ask":
            raise _asked(claim, name)
        if probed or policy.probe is None:
            raise DaybookError("refused", "effect %s has no probe that the book could rely on" % name)
        probed = True
        found = _probe(claim, name, Call(claim, begun["key"], time.monotonic() + limit), policy.probe)
        if found is not None:
            return _happened(claim, name, found.result)


def _sorted(value: Any) -> Any:
    """A value whose keys stand in order, so that a rebuilt dict is the same input."""
    if isinstance(value, Json):
        value = value.value
    if isinstance(value, Mapping):
        return {key: _sorted(value[key]) for key in sorted(value)}
    if isinstance(value, (list, tuple)):
        return [_sorted(item) for item in value]
    return value


def _read(result: Optional[Json]) -> Any:
    return None if result is None else result.value


def _begin(claim: "Claim", name: str, body: Dict[str, Any], limit: float) -> Any:
    """Makes the begin, with a lease that holds longer than the call, and again
    while the server is away."""
    body = dict(body, call=new_id())
    again = Backoff()
    while True:
        claim.check()
        if claim.worker.lease_left() < limit:
            claim.worker.renew()
            claim.check()
        try:
            return claim.worker.call("beginEffect", body, id=claim.id, name=name)
        except DaybookError as e:
            if e.code == "fenced":
                claim.worker.lose(claim)
                raise LeaseLost(e.detail) from e
            if not e.passing:
                raise
            claim.wait(again.after(e))


def _asked(claim: "Claim", name: str) -> DaybookError:
    claim.set_aside = True
    return DaybookError("effect_open", "effect %s may have happened; the job is set aside for a person" % name)


def _call(claim: "Claim", name: str, call: Call, fn: Callable[[Call], Any]) -> Any:
    # What a process does that is stopped between this check and the send, only a
    # destination that enforces the key can tell.
    try:
        claim.check()
        if call.remaining() <= 0.001:
            raise Snooze(0, "there was no time left for effect %s" % name)
    except (Over, Snooze):
        _finish(claim, name, "absent")
        raise
    try:
        result = fn(call)
    except NotHappened:
        _finish(claim, name, "absent")
        raise
    return _happened(claim, name, result)


def _happened(claim: "Claim", name: str, result: Any) -> Any:
    """Records that it was done, and its result, if that can be kept: another
    attempt would make the same one."""
    kept: Optional[Json] = None
    wrong: Optional[str] = None
    if result is not None:
        try:
            kept = Json.of(result)
            size = len(kept.text.encode("utf-8"))
            if size > RESULT_MAX:
                wrong = "at most %d bytes, got %d" % (RESULT_MAX, size)
        except (TypeError, ValueError) as e:
            wrong = str(e)
    if wrong is not None:
        _finish(claim, name, "done")
        raise Permanent("the result of effect %s happened, but isn't kept: %s" % (name, wrong))
    _finish(claim, name, "done", kept)
    return _read(kept)


def _probe(claim: "Claim", name: str, call: Call, probe: Probe) -> Optional[Found]:
    """Asks the destination whether the call of an earlier attempt happened."""
    try:
        found = probe(call)
        if found is not None and not isinstance(found, Found):
            raise TypeError("a probe answers Found(result) or None, got %s" % type(found).__name__)
    except Exception as e:
        if claim.over.is_set():
            raise  # the attempt is over, and the next one asks again
        _finish(claim, name, "unknown")
        raise _asked(claim, name) from e
    if found is None:
        _finish(claim, name, "absent")
    return found


def _finish(claim: "Claim", name: str, outcome: str, result: Optional[Json] = None) -> None:
    """Records what is known now, again and again until the book takes or refuses
    it: also when the attempt is over, since what happened happened."""
    body: Dict[str, Any] = dict(claim.owner, outcome=outcome)
    if result is not None:
        body["result"] = result
    again = Backoff()
    while True:
        try:
            claim.worker.call("finishEffect", body, id=claim.id, name=name)
            return
        except DaybookError as e:
            if e.code == "fenced":
                claim.worker.lose(claim)
                raise LeaseLost(e.detail) from e
            if not e.passing or not claim.worker.sleep(again.after(e)):
                raise


def _until(claim: "Claim", at: str) -> float:
    """Seconds until a time of the server. When the clocks differ by more than a
    second, its own counts."""
    text = at[:-1] if at.endswith("Z") else at
    when = datetime.datetime.fromisoformat(_micros(text)).replace(tzinfo=datetime.timezone.utc)
    return max(0.001, when.timestamp() - (time.time() + claim.worker.client.clock_off))


def _micros(text: str) -> str:
    """Python before 3.11 reads fractions of three or six digits only."""
    whole, dot, fraction = text.partition(".")
    return whole + dot + (fraction + "000000")[:6] if dot else whole
