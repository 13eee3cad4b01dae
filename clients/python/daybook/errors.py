"""What can go wrong, by code."""

from __future__ import annotations

from typing import Any, List, Optional

__all__ = ["DaybookError", "LeaseLost", "Cancelled", "Stopping", "Permanent", "Snooze", "NotHappened"]

# Codes of a call that may fare better a little later. The last two are the
# client's own: no answer came, or one that isn't the API's.
PASSING = frozenset(("busy", "rate_limited", "unavailable", "internal", "unreachable", "bad_answer"))

# Codes that say that a session, or a claim, is not known any more.
ENDED = frozenset(("fenced", "not_found"))


class DaybookError(Exception):
    """An error of a call. ``code`` is for programs: the API's own (fenced,
    refused, effect_open, invalid, key_conflict, unauthorized, …), or
    ``unreachable`` when no answer came and ``bad_answer`` when one came that the
    API doesn't give, like a page of a proxy."""

    def __init__(
        self,
        code: str,
        detail: str,
        *,
        status: int = 0,
        errors: Optional[List[Any]] = None,
        lost: Optional[List[Any]] = None,
        retry_after: Optional[float] = None,
        sent: bool = True,
    ) -> None:
        super().__init__(detail)
        self.code = code
        self.detail = detail
        self.status = status  #: of HTTP; 0 when no answer came
        self.errors = errors or []  #: which part of the request is to blame
        self.lost = lost or []  #: of started: claims that are lost
        self.retry_after = retry_after  #: seconds, where the answer says when to come again
        self.sent = sent  #: False when the server certainly never saw the call

    @property
    def passing(self) -> bool:
        """Whether the same call may fare better a little later."""
        return self.code in PASSING

    def __str__(self) -> str:
        return "%s: %s" % (self.code, self.detail)


class Over(DaybookError):
    """The attempt is over; the handler should return. Let it pass through."""


class LeaseLost(Over):
    """Another worker may run this job: the book took it back, or the lease
    couldn't be renewed in time."""

    def __init__(self, detail: str = "the lease is lost; another worker may run this job") -> None:
        super().__init__("fenced", detail)


class Cancelled(Over):
    """A person asked to cancel the job."""

    def __init__(self) -> None:
        super().__init__("refused", "the job was asked to cancel")


class Stopping(Over):
    """The worker stops, and its grace is over."""

    def __init__(self) -> None:
        super().__init__("unavailable", "the worker stops")


class Permanent(Exception):
    """Raised by a handler: trying again can't cure this; the job is set aside."""


class Snooze(Exception):
    """Raised by a handler: give the job back without blame, to be tried again
    after so many seconds; at once with 0."""

    def __init__(self, seconds: float = 0.0, why: str = "") -> None:
        super().__init__(why or "the job was given back for %g s" % seconds)
        self.seconds = min(max(0.0, float(seconds)), 10 * 365 * 86400.0)


class NotHappened(Exception):
    """Raised by the function of an effect: the call certainly had no effect, as
    when the connection was refused or the destination said no. Any other error
    leaves the effect open: a timeout is not a no."""
