"""A worker: claims jobs, runs handlers for them, keeps the lease, reports.

One session with one lease holds for everything a worker claimed. It is renewed
at a third of the lease, naming each claim. The lease counts from before a call
was sent, by this process's own clock; when it ran out by that, handlers are told
to stop, since the book may give their jobs away. What they say all the same is
sent with their generation, and the book decides.
"""

from __future__ import annotations

import logging
import random
import signal
import socket
import threading
import time
import traceback
from collections import deque
from typing import Any, Callable, Deque, Dict, List, Mapping, Optional, Sequence, Tuple, Type

from . import effects
from .api import Job
from .client import Backoff, Client, new_id
from .errors import ENDED, Cancelled, DaybookError, LeaseLost, Permanent, Snooze, Stopping
from .exact import Json, dumps
from .transport import Cut

__all__ = ["Claim", "Worker"]

Handler = Callable[["Claim"], Any]
Ref = Tuple[str, int]

# What a worker can't cure by trying again: it stops, and says so.
FATAL = frozenset(("unauthorized", "forbidden", "invalid", "malformed", "unsupported_media_type"))
# Bounds of one call with outcomes.
_ROWS, _BYTES = 500, 8 << 20
# How often an outcome is sent that the server fails on for another reason than
# being away.
_TRIES = 3
# How long handlers get to return behind the grace, once they are told.
_SETTLE = 1.0
_UNSET = object()


class Claim:
    """One attempt of a job, as its handler sees it."""

    def __init__(self, worker: "Worker", session: str, job: Job, generation: int) -> None:
        self.worker, self.job, self.generation, self.session = worker, job, generation, session
        self.id: str = job["id"]
        self.over = threading.Event()  #: set when the handler should return, for whatever reason
        self.lost = threading.Event()  #: set when another worker may run the job
        self.cancel = threading.Event()  #: set when a person asked to cancel the job
        self.cause: Optional[DaybookError] = None
        self.set_aside = False  #: by the ledger, for a person: the attempt has ended
        self.state = "queued"  # running, returned

    @property
    def args(self) -> Any:
        """The job's input: integers are int, other numbers Decimal."""
        return self.args_json.value

    @property
    def args_json(self) -> Json:
        """The job's input as it is kept; ``.text`` is its JSON."""
        return self.job.get("args") or Json("{}")

    @property
    def attempt(self) -> int:
        """Counts from 1: one more than what failed or crashed."""
        return self.job["failures"] + self.job["crashes"] + 1

    @property
    def owner(self) -> Dict[str, Any]:
        """Session and generation: what every write in its name carries."""
        return {"session": self.session, "generation": self.generation}

    @property
    def ref(self) -> Ref:
        return self.id, self.generation

    def check(self) -> None:
        """Raises why the attempt is over (LeaseLost, Cancelled, Stopping), if it
        is. Call it between steps, and let the error pass."""
        if not self.over.is_set() and self.worker.lease_left() <= 0:
            self.worker.lose(self)
        if self.over.is_set():
            # A new one each time: a traceback belongs to one raise.
            cause = self.cause
            raise LeaseLost() if cause is None or isinstance(cause, LeaseLost) else type(cause)()

    def wait(self, seconds: float) -> None:
        """Waits, and raises as check does as soon as the attempt is over."""
        self.over.wait(max(0.0, seconds))
        self.check()

    def progress(self, note: Any) -> None:
        """Keeps a note of how far the attempt is, at most 4 KiB of JSON; it
        replaces the one before."""
        self.check()
        try:
            self.worker.client.call("progress", dict(self.owner, progress=Json.of(note)), id=self.id)
        except DaybookError as e:
            if e.code == "fenced":
                self.worker.lose(self)
                raise LeaseLost(e.detail) from e
            raise

    def effect(
        self,
        name: str,
        policy: effects.Policy,
        fn: Callable[[effects.Call], Any],
        *,
        input: Any = _UNSET,
        next_key: bool = False,
        limit: Optional[float] = None,
    ) -> Any:
        """Do one outside action of this job through the ledger.

        When it is done already its recorded result is returned and nothing is
        called. Else fn runs with a Call (``key``, ``remaining()``), and what it
        returns is recorded as JSON, and returned as a later attempt would get it.
        fn raises NotHappened when the action certainly had no effect; any other
        error leaves it open, and the policy decides what the next attempt makes of
        that. Let what this raises pass through the handler: it may end the attempt
        in a way of its own.

        input: what the call is about to do; a later attempt with another one is
        stopped. next_key: call with a new key after the one before was absent.
        limit: seconds that the call may take; half of the lease without."""
        compared = input is not _UNSET
        return effects.perform(
            self, name, policy, fn, input=input, compared=compared, next_key=next_key, limit=limit
        )  # fmt: skip


class _Call:
    """One claim call. Until its answer came it is repeated by its key, and gives
    the same claims."""

    def __init__(self, session: Optional[str], limit: int, listings: int, wait: float) -> None:
        self.session, self.limit, self.listings, self.wait = session, limit, listings, wait
        self.key, self.first = new_id(), time.monotonic()
        self.repeated = False


class Worker:
    """Runs handlers for the jobs of some queues.

        worker = Worker(Client(), ["mail"])

        @worker.handle("welcome")
        def welcome(claim):
            return {"sent": send(claim.args["to"])}

        worker.run()

    What a handler returns is the job's result. An error is a failure that is tried
    again later, Permanent sets the job aside at once, Snooze gives it back without
    blame. A job may run more than once (after a crash nobody knows how far it
    came): see Claim.effect.

    concurrency: handlers that run at once, each in a thread. lease: seconds (1 to
    86400) after which the jobs of a worker that was not heard of go to others.
    grace: seconds that handlers get when the worker stops. wait: seconds that a
    claim call waits for work, at most 60 and by default a third of the lease."""

    def __init__(
        self,
        client: Client,
        queues: Sequence[str],
        *,
        name: Optional[str] = None,
        concurrency: int = 10,
        lease: float = 30.0,
        grace: float = 25.0,
        wait: Optional[float] = None,
        log: Optional[logging.Logger] = None,
    ) -> None:
        if isinstance(queues, str) or not queues:
            raise ValueError("queues wants a list of at least one queue's name")
        if concurrency < 1:
            raise ValueError("concurrency wants 1 or more, got %d" % concurrency)
        if not 1 <= lease <= 86400:
            raise ValueError("lease wants 1 to 86400 seconds, got %g" % lease)
        self.client, self.queues, self.concurrency = client, list(queues), concurrency
        self.lease, self.grace = float(lease), max(0.0, grace)
        self.wait = min(20.0, lease * 0.3) if wait is None else wait
        self.name = name or socket.gethostname() or "worker"
        self.log = log or logging.getLogger("daybook")
        self.counts: Dict[str, int] = dict.fromkeys(("claimed", "recorded", "fenced", "lost"), 0)
        self._handlers: Dict[Optional[str], Handler] = {}
        self._cond = threading.Condition(threading.RLock())
        self._renewing = threading.Lock()
        self._reset()

    def _reset(self) -> None:
        self._session: Optional[str] = None
        self._trust = 0.0  # until when the lease holds by this process's clock
        self._held: Dict[Ref, Claim] = {}
        self._queue: Deque[Claim] = deque()
        self._ready: Deque[Claim] = deque()  # handed to a thread
        self._outbox: Deque[Tuple[Claim, Dict[str, Any], bool]] = deque()
        self._threads = self._running = self._listings = 0
        self._quiet = self._stopping = self._now = self._hard = self._drain = False
        self._fatal: Optional[DaybookError] = None
        self._cut: Optional[Cut] = None

    # Handlers.

    def handle(self, kind: Optional[str] = None, fn: Optional[Handler] = None) -> Any:
        """Registers the handler of a kind of job; as a decorator, or with fn. A
        kind of None is every kind that has none of its own. Register before run."""

        def register(fn: Handler) -> Handler:
            if kind in self._handlers:
                raise ValueError("%r has two handlers; register one" % kind)
            self._handlers[kind] = fn
            return fn

        return register if fn is None else register(fn)

    # Life.

    def run(self, *, drain: bool = False, signals: bool = True) -> None:
        """Works until it is stopped: by stop(), SIGTERM or SIGINT (a second one ends
        at once). With drain it ends when nothing is eligible and nothing runs. When
        it ends, what hasn't begun is given back at once, handlers get the grace, and
        what is left after it is given back too. Raises DaybookError when the server
        refuses the worker: a wrong token, a queue that is no name."""
        if not self._handlers:
            raise ValueError("the worker has no handler; register one with handle")
        self._reset()
        self._drain = drain
        before = self._catch_signals() if signals else {}
        loops = [
            threading.Thread(target=self._guarded, args=(loop,), name="daybook-" + loop.__name__, daemon=True)
            for loop in (self._claims, self._renewals, self._outcomes)
        ]
        try:
            for loop in loops:
                loop.start()
            self.log.info("worker %s starts, queues %s", self.name, ", ".join(self.queues))
            self._watch()
            self._shut_down()
        finally:
            with self._cond:
                self._stopping = self._hard = True
                self._cond.notify_all()
            for number, handler in before.items():
                signal.signal(number, handler)
        for loop in loops:
            loop.join(2.0)
        self._say_goodbye()
        self.log.info("worker %s stopped", self.name)
        if self._fatal is not None:
            raise self._fatal

    def _guarded(self, loop: Callable[[], None]) -> None:
        """A loop that a fault ends takes the worker with it: one that seems to work
        and renews nothing is worse."""
        try:
            loop()
        except BaseException as e:
            self.log.exception("a loop of the worker failed by a fault of its own")
            self._die(DaybookError("fault", "%s in %s" % (type(e).__name__, loop.__name__)))

    def stop(self, *, now: bool = False) -> None:
        """Ends run from another thread, or from a handler; now without the grace."""
        with self._cond:
            self._stopping = True
            self._now = self._now or now
            # A call without a session may be making one; its answer comes soon.
            cut = self._cut if self._session is not None else None
            self._cond.notify_all()
        if cut is not None:
            cut.cut()

    def _catch_signals(self) -> Dict[Any, Any]:
        if threading.current_thread() is not threading.main_thread():
            return {}

        def caught(number: int, _: Any) -> None:
            # The lock may be held by the very thread that the signal interrupts: it
            # is reentrant, and a thread of its own needs no care at all.
            threading.Thread(target=self.stop, kwargs={"now": self._stopping}, daemon=True).start()

        return {number: signal.signal(number, caught) for number in (signal.SIGTERM, signal.SIGINT)}

    def _watch(self) -> None:
        """Until the worker stops: ends handlers when the lease runs out."""
        with self._cond:
            while not self._stopping:
                left = self._trust - time.monotonic()
                if self._session is not None and left <= 0:
                    self._distrust()
                self._cond.wait(left if self._session is not None and left > 0 else 1.0)

    def _distrust(self) -> None:
        running = [c for c in self._held.values() if c.state == "running" and not c.over.is_set()]
        for claim in running:
            self._end(claim, LeaseLost("the lease could not be renewed in time"))
        if running:
            self.log.warning("the lease could not be renewed in time; %d handlers are told to stop", len(running))

    def _shut_down(self) -> None:
        with self._cond:
            while self._queue:
                self._give_back(self._queue.popleft())
            self._settled(self.grace, until_now=True)
            for claim in self._held.values():
                if claim.state == "running":
                    self._end(claim, Stopping())
            self._settled(0.1 if self._now else _SETTLE)
            left = sum(c.state == "running" for c in self._held.values())
        if left:
            self.log.warning("%d handlers go on after the grace; their jobs are given back", left)

    def _settled(self, most: float, until_now: bool = False) -> None:
        until = time.monotonic() + most
        while self._holds() and time.monotonic() < until and not (until_now and self._now):
            left = self._trust - time.monotonic()
            if left <= 0:
                self._distrust()
            self._cond.wait(min(until - time.monotonic(), left if left > 0 else 1.0))

    def _holds(self) -> bool:
        """Whether there is something to wait for. Outcomes that the server refuses to
        hear are not."""
        deaf = self._fatal is not None and self._fatal.code in ("unauthorized", "forbidden")
        return any(c.state == "running" for c in self._held.values()) if deaf else bool(self._held)

    def _say_goodbye(self) -> None:
        """Ends the session, which gives back what it still owns. When the server is
        away the lease does that."""
        session, self._session = self._session, None
        if session is None or self._fatal is not None and self._fatal.code == "unauthorized":
            return
        try:
            self.client.call("endSession", session=session, patience=1.0, timeout=2.0)
        except DaybookError as e:
            if e.code not in ENDED:
                self.log.warning("the session could not be ended, its lease will run out: %s", e)

    def _die(self, e: DaybookError) -> None:
        with self._cond:
            if self._fatal is None:
                self._fatal = e
                self.log.error("the worker stops: %s", e)
        self.stop()

    # What effects and claims use.

    def call(self, operation: str, body: Any, **path: str) -> Any:
        """One call that isn't repeated here."""
        return self.client.call(operation, body, patience=0.0, timeout=self._patience(), **path)

    def lease_left(self) -> float:
        """Seconds that the lease still holds by this process's clock."""
        with self._cond:
            return self._trust - time.monotonic() if self._session is not None else 0.0

    def lose(self, claim: Claim) -> None:
        """Notes that a claim isn't the worker's any more."""
        with self._cond:
            self._lose(claim, LeaseLost())

    def sleep(self, seconds: float) -> bool:
        """Pauses; False when the worker has ended."""
        until = time.monotonic() + seconds
        with self._cond:
            while not self._hard and time.monotonic() < until:
                self._cond.wait(until - time.monotonic())
            return not self._hard

    def _patience(self) -> float:
        return min(self.lease, 10.0)

    # Claims.

    def _claims(self) -> None:
        call: Optional[_Call] = None
        again = Backoff()
        while True:
            with self._cond:
                while not self._stopping and (self._quiet or self._free() <= 0):
                    if self._quiet and self._drain and not self._held:
                        return self.stop()
                    self._cond.wait()
                if self._stopping:
                    return
                if call is None or call.session != self._session:
                    wait = 0.0 if self._session is None or self._drain else self.wait
                    call = _Call(self._session, self._free(), self._listings, wait)
                listings, self._cut = self._listings, Cut()
                sent = time.monotonic()
            try:
                answer = self._claim(call, self._cut)
            except DaybookError as e:
                if not self._claim_failed(call, e, again):
                    return
                continue
            again.healed()
            if answer["claims"] and self._listings != listings and self._listings - call.listings >= 2:
                # Two renewals that didn't name these claims may have given them back.
                # The repeat answers what is still owned.
                call.repeated = True
                continue
            if self._claimed(call, answer, time.monotonic() - sent):
                return
            call = None

    def _claim(self, call: _Call, cut: Cut) -> Any:
        body: Dict[str, Any] = {"queues": self.queues, "limit": call.limit, "starts": True, "wait_seconds": call.wait}
        if None not in self._handlers:
            body["kinds"] = sorted(str(kind) for kind in self._handlers)
        if call.session is not None:
            body["session"] = call.session
        else:
            body.update(worker=self.name, lease_seconds=self.lease)
        return self.client.call(
            "claim", body, key=call.key, cut=cut, patience=0.0, timeout=call.wait + self._patience()
        )  # fmt: skip

    def _claim_failed(self, call: _Call, e: DaybookError, again: Backoff) -> bool:
        """Whether the claim loop goes on."""
        if self._stopping:
            return False
        if e.code in ENDED and call.session is not None:
            self._end_session(call.session, e)
            return True
        if e.code in FATAL:
            self._die(e)
            return False
        if again.tries == 0:
            self.log.warning("a claim failed; it is made again until it succeeds: %s", e)
        call.repeated = True
        self._pause(again.after(e))
        return True

    def _pause(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        with self._cond:
            while not self._stopping and time.monotonic() < until:
                self._cond.wait(until - time.monotonic())

    def _claimed(self, call: _Call, answer: Any, took: float) -> bool:
        """Takes claims over. True ends a worker that drains."""
        with self._cond:
            fresh = self._session is None
            if fresh:
                self._session, self._trust = answer["session"], call.first + self.lease
                self._cond.notify_all()
            if answer["session"] != self._session or self._stopping:
                return False  # nobody's; the end of its session gives them back
            for given in answer["claims"]:
                claim = Claim(self, answer["session"], given["job"], given["generation"])
                if claim.ref not in self._held:
                    self._held[claim.ref] = claim
                    self._queue.append(claim)
                    self.counts["claimed"] += 1
            late = self._trust - time.monotonic() < self.lease / 2
        if late:  # the answer was long on its way
            self.renew()
        with self._cond:
            self._fill()
            empty = not answer["claims"]
            if self._drain and empty:
                if not self._held and not call.repeated:
                    self.stop()
                    return True
            while self._drain and empty and self._held and not self._stopping and not self._outbox:
                self._cond.wait(1.0)  # what fails may be eligible again
        if empty and not fresh and took < call.wait / 2:
            self._pause(random.uniform(0.8, 1.2))  # the server didn't wait as long as it was asked to
        return False

    def _free(self) -> int:
        return self.concurrency - self._running - len(self._queue)

    def _fill(self) -> None:
        """Hands what waits to threads. Nothing begins when the lease doesn't hold
        by this process's clock."""
        while self._queue and not self._stopping and self.lease_left() > 0 and self._running < self.concurrency:
            claim = self._queue.popleft()
            claim.state = "running"
            self._running += 1
            self._ready.append(claim)
            if self._threads < self._running:
                self._threads += 1
                threading.Thread(target=self._slot, name="daybook-handler", daemon=True).start()
        self._cond.notify_all()

    def _give_back(self, claim: Claim) -> None:
        claim.state = "returned"
        self._report(claim, {"outcome": "released"})

    def _end_session(self, session: str, e: DaybookError) -> None:
        """Lets go of a session that the book ended. Its claims are lost."""
        with self._cond:
            if self._session != session:
                return
            self._session, self._trust = None, 0.0
            for claim in list(self._held.values()):
                if claim.session == session:
                    self._lose(claim, LeaseLost())
            self._cond.notify_all()
        self.log.warning("the book ended this worker's session; it starts a new one: %s", e)

    # The lease.

    def _renewals(self) -> None:
        again = Backoff()
        pause = self._renew_every()
        while self.sleep(pause):
            pause = self.renew(again)

    def _renew_every(self) -> float:
        return self.lease / 3 * random.uniform(0.9, 1.0)

    def renew(self, again: Optional[Backoff] = None) -> float:
        """Makes one renewal now, and returns when to make the next."""
        again = again or Backoff()
        with self._renewing:
            with self._cond:
                session = self._session
                if session is None:
                    return min(1.0, self._renew_every())
                # All that is held: what two renewals don't name is taken back.
                refs = [{"id": c.id, "generation": c.generation}
                        for c in self._held.values() if c.session == session and not c.lost.is_set()]  # fmt: skip
                self._listings += 1
            sent = time.monotonic()
            try:
                answer = self.client.call(
                    "renew", {"claims": refs}, session=session, patience=0.0, timeout=self.lease / 3
                )  # fmt: skip
            except DaybookError as e:
                if e.code in ENDED:
                    self._end_session(session, e)
                elif e.code in FATAL:
                    self._die(e)
                elif again.tries == 0:
                    self.log.warning("the lease is not renewed; it is tried again: %s", e)
                return min(again.after(e), self.lease / 10)
            again.healed()
            self._renewed(session, sent, answer)
            return max(0.0, self._renew_every() - (time.monotonic() - sent))

    def _renewed(self, session: str, sent: float, answer: Any) -> None:
        with self._cond:
            if self._session != session:
                return
            self._trust = max(self._trust, sent + self.lease)
            if answer.get("quiet") and not self._quiet:
                self._quiet = True
                self.log.info("asked to claim no more")
            for ref in answer["lost"]:
                claim = self._held.get((ref["id"], ref["generation"]))
                if claim is not None:
                    self._lose(claim, LeaseLost())
            for ref in answer["cancel"]:
                claim = self._held.get((ref["id"], ref["generation"]))
                if claim is not None and claim.state == "queued":
                    self._queue.remove(claim)
                    self._give_back(claim)  # which makes it cancelled
                elif claim is not None:
                    self._end(claim, Cancelled())
            self._fill()  # what waited while the lease was in doubt

    def _lose(self, claim: Claim, why: DaybookError) -> None:
        """Ends what is done for a lost claim. One whose handler returned is left to
        be answered by the book."""
        if claim.lost.is_set() or claim.state == "returned":
            return
        self.counts["lost"] += 1
        if claim.state == "queued":
            self._queue.remove(claim)
            claim.lost.set()
            self._drop(claim)
        else:
            self._end(claim, why)
            claim.lost.set()
        self._cond.notify_all()

    def _end(self, claim: Claim, why: DaybookError) -> None:
        """Tells a handler to stop; the first cause stands."""
        if claim.cause is None:
            claim.cause = why
        if isinstance(why, LeaseLost):
            claim.lost.set()
        elif isinstance(why, Cancelled):
            claim.cancel.set()
        claim.over.set()

    def _drop(self, claim: Claim) -> None:
        if self._held.get(claim.ref) is claim:
            del self._held[claim.ref]
        self._cond.notify_all()

    # Handlers, each in a slot.

    def _slot(self) -> None:
        while True:
            with self._cond:
                while not self._ready:
                    if self._hard:
                        return
                    self._cond.wait()
                claim = self._ready.popleft()
            ending = self._attempt(claim)
            with self._cond:
                if self._held.get(claim.ref) is not claim:
                    return  # it is of a run that is over
                claim.state = "returned"
                self._running -= 1
                self._report(claim, ending)

    def _attempt(self, claim: Claim) -> Dict[str, Any]:
        """Runs the handler and says how it ended, whatever it did."""
        try:
            if claim.job["on_lost"] == "set_aside" and not self._started(claim):
                return {"outcome": "released"}
            handler = self._handlers.get(claim.job["kind"]) or self._handlers[None]
            result = handler(claim)
        except BaseException as e:  # a handler's SystemExit ends its attempt, not the worker
            return self._failed(claim, e)
        if claim.set_aside:  # the attempt has ended, in the book already
            return {"outcome": "released"}
        if result is None:
            return {"outcome": "succeeded"}
        try:
            return {"outcome": "succeeded", "result": Json.of(result)}
        except (TypeError, ValueError) as e:
            return dict(_failure(e), error="the result can't be written as JSON: %s" % e, permanent=True)

    def _started(self, claim: Claim) -> bool:
        """Records the start of an attempt whose loss a person must judge, before its
        handler begins: what has no start recorded never began."""
        again = Backoff()
        ref = {"id": claim.id, "generation": claim.generation}
        while not claim.over.is_set():
            try:
                self.call("started", [ref], session=claim.session)
                return not claim.over.is_set()
            except DaybookError as e:
                if e.code in ENDED:
                    self.lose(claim)
                    return False
                if not e.passing:
                    return False
                claim.over.wait(again.after(e))
        return False

    def _failed(self, claim: Claim, e: BaseException) -> Dict[str, Any]:
        """What a handler's error means for the job."""
        if claim.set_aside:
            return {"outcome": "released"}
        if isinstance(e, Snooze):
            return {"outcome": "released", "in_seconds": e.seconds}
        if isinstance(e, Permanent):
            return dict(_failure(e), permanent=True)
        if isinstance(claim.cause, (LeaseLost, Stopping)) or isinstance(e, (LeaseLost, Stopping)):
            return {"outcome": "released"}  # the worker broke it off, whatever the handler calls it
        if isinstance(claim.cause, Cancelled) and isinstance(e, Cancelled):
            return {"outcome": "released"}  # the book makes it cancelled
        return _failure(e)

    # Outcomes.

    def _report(self, claim: Claim, ending: Mapping[str, Any], instead: bool = False) -> None:
        row = dict(ending, id=claim.id, **claim.owner)
        self._outbox.append((claim, row, instead))
        self._cond.notify_all()

    def _outcomes(self) -> None:
        while True:
            with self._cond:
                while not self._outbox and not self._hard:
                    self._cond.wait()
                if self._hard:
                    return
                batch = self._take()
            self._record(batch)

    def _take(self) -> List[Tuple[Claim, Dict[str, Any], bool]]:
        batch: List[Tuple[Claim, Dict[str, Any], bool]] = []
        size = 0
        while self._outbox and len(batch) < _ROWS:
            row = self._outbox[0][1]
            size += len(dumps(row.get("result"))) + len(row.get("error", "")) + len(row.get("trace", ""))
            if batch and size > _BYTES:
                break
            batch.append(self._outbox.popleft())
        return batch

    def _record(self, batch: List[Tuple[Claim, Dict[str, Any], bool]]) -> None:
        """Sends outcomes until the book answers: their claims stay listed so long.
        When it refuses the call as a whole, each is sent alone."""
        again = Backoff()
        while True:
            try:
                answers = self.call("outcomes", [row for _, row, _ in batch])
                if len(answers) != len(batch):
                    raise DaybookError("bad_answer", "%d answers to %d outcomes" % (len(answers), len(batch)))
            except DaybookError as e:
                if e.code in ("unauthorized", "forbidden"):
                    self._die(e)
                elif not e.passing and len(batch) > 1:
                    for one in batch:
                        self._record([one])
                    return
                elif not e.passing and again.tries >= _TRIES:
                    answers = [{"id": batch[0][1]["id"], "already": False, "code": e.code, "detail": e.detail}]
                    break
                if again.tries == 0:
                    self.log.warning("outcomes are not recorded; they are sent again: %s", e)
                if not self.sleep(again.after(e)):
                    return
            else:
                break
        busy = [one for one, answer in zip(batch, answers) if self._answered(one, answer)]
        if busy:
            self.sleep(random.uniform(0.1, 0.3))
            with self._cond:
                self._outbox.extend(busy)

    def _answered(self, one: Tuple[Claim, Dict[str, Any], bool], answer: Any) -> bool:
        """Lets go of what the book recorded or refused. True is for what must be sent
        again."""
        claim, row, instead = one
        code = answer.get("code")
        if code in ("busy", "unavailable"):
            return True
        with self._cond:
            if code is not None and code not in ENDED and not instead:
                # Refused for what it says: a success with an open effect, a result
                # that can't be kept. The attempt fails then.
                self._report(claim, {"outcome": "failed", "error": "%s: %s" % (code, answer.get("detail", "")),
                                     "error_kind": code}, instead=True)  # fmt: skip
                return False
            self.counts["fenced" if code is not None else "recorded"] += 1
            self._drop(claim)
        if code is not None:
            self.log.warning("job %s, generation %d: %s was refused (%s): %s", claim.id, claim.generation,
                             row["outcome"], code, answer.get("detail", ""))  # fmt: skip
        elif row["outcome"] == "failed":
            self.log.info("job %s, generation %d: failed: %s", claim.id, claim.generation, row["error"])
        return False


def _failure(e: BaseException) -> Dict[str, Any]:
    kind: Type[BaseException] = type(e)
    trace = "".join(traceback.format_exception(kind, e, e.__traceback__)[-30:])
    return {"outcome": "failed", "error": _storable(str(e) or kind.__name__), "error_kind": kind.__name__,
            "trace": _storable(trace)}  # fmt: skip


def _storable(text: str) -> str:
    """The text without lone surrogates, cut well past the server's own limit."""
    return text[: 64 << 10].encode("utf-8", "replace").decode("utf-8")
