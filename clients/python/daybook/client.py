"""The calls of the API as methods."""

from __future__ import annotations

import datetime
import os
import random
import ssl
import time
import uuid
from typing import Any, Dict, Iterable, List, Mapping, Optional, Union
from urllib.parse import quote, urlencode

from . import api
from .errors import DaybookError
from .exact import Json, dumps, parse_answer
from .transport import Answer, Cut, Transport

__all__ = ["Client", "new_id"]

Time = Union[str, datetime.datetime]

# A call that waits for work may be answered so much later than it asked for.
_SLACK = 15.0


def new_id() -> str:
    """A new UUID, of version 7: such sort by when they were made."""
    ms = time.time_ns() // 1_000_000
    value = (ms << 80) | int.from_bytes(os.urandom(10), "big")
    value = value & ~(0xF << 76) | 0x7 << 76
    value = value & ~(0x3 << 62) | 0x2 << 62
    return str(uuid.UUID(int=value))


class Backoff:
    """Pauses between calls that fail: from 50 ms doubling to 5 s, spread by half,
    or what the server asks for."""

    def __init__(self) -> None:
        self.tries = 0

    def after(self, error: DaybookError, most: float = 60.0) -> float:
        pause = min(0.05 * 2 ** min(self.tries, 10), 5.0) * random.uniform(0.5, 1.5)
        self.tries += 1
        if error.retry_after is not None:
            pause = max(pause, error.retry_after * random.uniform(1.0, 1.1))
        return min(pause, most)

    def healed(self) -> None:
        self.tries = 0


class Client:
    """Speaks to one server. One client serves any number of threads.

    A call that gets no answer, or 429 or 503, is made again for ``patience``
    seconds; calls that would do something twice are so only when the server
    certainly never saw them. Errors are DaybookError, by ``code``.

    server and token default to DAYBOOK_SERVER and DAYBOOK_TOKEN. The environment's
    proxies are not used."""

    def __init__(
        self,
        server: Optional[str] = None,
        token: Optional[str] = None,
        *,
        patience: float = 30.0,
        timeout: float = 10.0,
        tls: Optional[ssl.SSLContext] = None,
    ) -> None:
        server = server or os.environ.get("DAYBOOK_SERVER") or "http://127.0.0.1:7373"
        token = token if token is not None else os.environ.get("DAYBOOK_TOKEN") or None
        self._transport = Transport(server, token, tls)
        self._patience, self._timeout = patience, timeout
        self.clock_off = 0.0  #: seconds that the server's clock was ahead at the last answer, where more than one

    def close(self) -> None:
        """Closes the connections that are kept open."""
        self._transport.close()

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    # Jobs.

    def enqueue(
        self,
        queue: str,
        kind: str,
        args: Any = None,
        *,
        key: Optional[str] = None,
        id: Optional[str] = None,
        run_at: Optional[Time] = None,
        in_seconds: Optional[float] = None,
        expires_at: Optional[Time] = None,
        priority: Optional[int] = None,
        max_failures: Optional[int] = None,
        on_lost: Optional[str] = None,
        timeout_seconds: Optional[float] = None,
        traceparent: Optional[str] = None,
        tracestate: Optional[str] = None,
    ) -> api.Receipt:
        """Put one job in. The same key with the same queue, kind and args is the
        same job. args is what JSON has a form for, a Json, or None for none. Without
        key and id the client chooses the id, so that it can repeat the call: then
        ``replayed`` may also say that its first answer was lost."""
        row: Dict[str, Any] = {"queue": queue, "kind": kind}
        options = {
            "args": None if args is None else Json.of(args),
            "key": key, "id": id, "run_at": _time(run_at), "in_seconds": in_seconds,
            "expires_at": _time(expires_at), "priority": priority, "max_failures": max_failures,
            "on_lost": on_lost, "timeout_seconds": timeout_seconds, "traceparent": traceparent, "tracestate": tracestate,
        }  # fmt: skip
        row.update((name, value) for name, value in options.items() if value is not None)
        return self.call("enqueue", _repeatable(row))

    def enqueue_many(self, jobs: Iterable[Mapping[str, Any]]) -> List[api.Receipt]:
        """Put many jobs in, all or none: at most 10,000 and 32 MiB. Each is like
        a JobBody, with a key of its own where it has one."""
        rows = [_repeatable({**job, **_times(job)}) for job in jobs]
        receipts: List[api.Receipt] = self.call("enqueueBatch", rows)["jobs"]
        return receipts

    def job(self, id: str) -> api.Job:
        """Show one job."""
        return self.call("getJob", id=id)

    def jobs(self, **filter: Any) -> api.JobPage:
        """List jobs: queue, kind, state, reason, key, held, limit, cursor."""
        return self.call("listJobs", query=filter)

    def timeline(self, id: str) -> List[api.Event]:
        """All that happened to a job, in time order."""
        events: List[api.Event] = self.call("getTimeline", id=id)["events"]
        return events

    def why(self, id: str) -> api.Why:
        """Why a job stands where it stands, and whether a retry is safe."""
        return self.call("whyJob", id=id)

    def attempts(self, id: str) -> List[api.Attempt]:
        """A job's attempts that ended, the oldest first."""
        attempts: List[api.Attempt] = self.call("listAttempts", id=id)["attempts"]
        return attempts

    def cancel(self, id: str, reason: str, *, force: bool = False) -> api.Job:
        """Cancel a job. A running one is asked to stop; force takes it away."""
        return self.call("cancelJob", {"reason": reason, "force": force}, id=id)

    def revive(self, id: str, reason: str, *, unsafe: bool = False) -> api.Job:
        """Send a job that ended back to waiting."""
        return self.call("reviveJob", {"reason": reason, "unsafe": unsafe}, id=id)

    def effects(self, **filter: Any) -> api.EffectPage:
        """List effects: open, job, limit, cursor."""
        return self.call("listEffects", query=filter)

    def settle(self, job: str, name: str, outcome: str, reason: str, **more: Any) -> api.Job:
        """Say what an open effect did: outcome is happened or absent."""
        return self.call("settleEffect", {"outcome": outcome, "reason": reason, **_document(more)}, id=job, name=name)

    # What workers call. Worker does it all; this is for loops of your own.

    def claim(self, queues: List[str], *, idempotency_key: Optional[str] = None, **more: Any) -> api.Claims:
        """Claim jobs, or wait for some (wait_seconds, at most 60). The same call
        with the same key gives the same claims again; without a key one is made."""
        return self.call("claim", {"queues": list(queues), **more}, key=idempotency_key or new_id())

    def claim_job(self, id: str, *, idempotency_key: Optional[str] = None, **more: Any) -> api.Claims:
        """Claim one job."""
        return self.call("claimJob", dict(more), id=id, key=idempotency_key or new_id())

    def renew(self, session: str, claims: Optional[List[api.ClaimRef]] = None) -> api.Renewed:
        """Extend a session's lease. claims is all that it believes to own: what two
        renewals don't name is taken back. None names all."""
        return self.call("renew", {} if claims is None else {"claims": claims}, session=session)

    def started(self, session: str, claims: List[api.ClaimRef]) -> None:
        """Record that handlers begin. Error fenced: see its ``lost``; the others
        are recorded."""
        self.call("started", claims, session=session)

    def end_session(self, session: str) -> None:
        """End a session; what it still owns is given back."""
        self.call("endSession", session=session)

    def complete(self, id: str, session: str, generation: int, result: Any = None) -> api.Ended:
        """End an attempt well."""
        body: Dict[str, Any] = {"session": session, "generation": generation}
        if result is not None:
            body["result"] = Json.of(result)
        return self.call("complete", body, id=id)

    def fail(self, id: str, session: str, generation: int, error: str, **more: Any) -> api.Ended:
        """End an attempt that failed; permanent=True sets the job aside."""
        return self.call("fail", {"session": session, "generation": generation, "error": error, **more}, id=id)

    def release(self, id: str, session: str, generation: int, in_seconds: float = 0.0) -> api.Ended:
        """Give a claim back without blame."""
        return self.call("release", {"session": session, "generation": generation, "in_seconds": in_seconds}, id=id)

    def progress(self, id: str, session: str, generation: int, progress: Any) -> None:
        """Say how far an attempt is."""
        body = {"session": session, "generation": generation, "progress": Json.of(progress)}
        self.call("progress", body, id=id)

    def outcomes(self, rows: List[api.OutcomeRow]) -> List[api.OutcomeAnswer]:
        """End many attempts, each with an answer of its own."""
        answers: List[api.OutcomeAnswer] = self.call("outcomes", rows)
        return answers

    def begin_effect(self, id: str, name: str, session: str, generation: int, policy: str, **more: Any) -> api.Begun:
        """Ask leave to do something outside, and record that it begins."""
        body = {"session": session, "generation": generation, "policy": policy, "call": new_id(), **more}
        return self.call("beginEffect", body, id=id, name=name)

    def finish_effect(
        self, id: str, name: str, session: str, generation: int, outcome: str, **more: Any
    ) -> api.EffectEnded:
        """Record what an outside call, or a probe, came to."""
        body = {"session": session, "generation": generation, "outcome": outcome, **_document(more)}
        return self.call("finishEffect", body, id=id, name=name)

    # All calls go through here.

    def call(
        self,
        operation: str,
        body: Any = None,
        *,
        query: Optional[Mapping[str, Any]] = None,
        key: Optional[str] = None,
        patience: Optional[float] = None,
        timeout: Optional[float] = None,
        cut: Optional[Cut] = None,
        **path: str,
    ) -> Any:
        """One call by its operationId, repeated while that is safe and useful."""
        op = api.OPERATIONS[operation]
        address = op.path.format(**{name: quote(value, safe="") for name, value in path.items()})
        if query:
            unknown = set(query) - set(op.query)
            if unknown:
                raise TypeError("%s takes no %s" % (operation, ", ".join(sorted(unknown))))
            address += "?" + urlencode([(k, _word(v)) for k, v in query.items() if v is not None])
        text = None if op.method == "GET" else dumps(body) if body is not None else "{}"
        if timeout is None:
            timeout = self._timeout
            if isinstance(body, dict):
                timeout = max(timeout, float(body.get("wait_seconds") or 0) + _SLACK)
        until = time.monotonic() + (self._patience if patience is None else patience)
        again = Backoff()
        while True:
            try:
                return self._once(op, address, text, key, timeout, cut)
            except DaybookError as e:
                pause = again.after(e)
                repeat = op.repeatable or not e.sent or e.code in ("busy", "rate_limited", "unavailable")
                if not e.passing or not repeat or (cut and cut.done) or time.monotonic() + pause > until:
                    raise
            time.sleep(pause)

    def _once(
        self, op: api.Operation, address: str, text: Optional[str], key: Optional[str], timeout: float,
        cut: Optional[Cut],
    ) -> Any:  # fmt: skip
        headers = {} if key is None else {"Idempotency-Key": '"%s"' % key}
        answer = self._transport.send(
            op.method, address, text, headers, timeout, fresh=not op.repeatable, cut=cut
        )  # fmt: skip
        self.clock_off = answer.clock_off
        good = 200 <= answer.status < 300
        if good and op.answer is None:
            return None
        if good and answer.media == "application/json":
            try:
                value = parse_answer(answer.text)
            except (ValueError, RecursionError):
                raise _bad(answer, "an answer that isn't JSON") from None
            if not api.fits(value, op.answer):
                raise _bad(answer, "JSON that isn't the answer of this call")
            return value
        if good:
            raise _bad(answer, "an answer of type %s" % answer.media)
        raise _problem(answer)


def _bad(answer: Answer, what: str) -> DaybookError:
    return DaybookError(
        "bad_answer", "HTTP %d with %s; is this the server, or a proxy on the way?" % (answer.status, what),
        status=answer.status, retry_after=answer.retry_after,
    )  # fmt: skip


def _problem(answer: Answer) -> DaybookError:
    """What the API says went wrong; anything else isn't its answer."""
    problem: Any = None
    if answer.media == "application/problem+json":
        try:
            problem = parse_answer(answer.text)
        except (ValueError, RecursionError):
            pass
    if not isinstance(problem, dict) or not isinstance(problem.get("code"), str):
        return _bad(answer, "no word of the API")
    return DaybookError(
        problem["code"], str(problem.get("detail", "")), status=answer.status, errors=problem.get("errors"),
        lost=problem.get("lost"), retry_after=answer.retry_after,
    )  # fmt: skip


def _repeatable(row: Dict[str, Any]) -> Dict[str, Any]:
    if "id" not in row and "key" not in row:
        row["id"] = new_id()
    return row


def _document(row: Dict[str, Any]) -> Dict[str, Any]:
    if "result" in row:
        row["result"] = Json.of(row["result"])
    return row


def _times(row: Mapping[str, Any]) -> Dict[str, Any]:
    return {name: _time(row[name]) for name in ("run_at", "expires_at") if name in row}


def _time(value: Optional[Time]) -> Optional[str]:
    if not isinstance(value, datetime.datetime):
        return value
    if value.tzinfo is None:
        raise ValueError("a time wants a zone, like datetime.timezone.utc")
    return value.astimezone(datetime.timezone.utc).isoformat().replace("+00:00", "Z")


def _word(value: Any) -> str:
    return ("true" if value else "false") if isinstance(value, bool) else str(value)
