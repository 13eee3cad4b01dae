"""A client and a worker for Daybook, a durable job system.

    from daybook import Client, Worker, keyed

The standard library only; Python 3.9 or newer. README.md has the tour.
"""

from .api import *  # noqa: F401,F403
from .client import Client, new_id
from .effects import Call, Found, Policy, ask, checked, keyed, repeatable
from .errors import Cancelled, DaybookError, LeaseLost, NotHappened, Permanent, Snooze, Stopping
from .exact import Json, dumps, loads
from .worker import Claim, Worker

__all__ = [
    "Call", "Cancelled", "Claim", "Client", "DaybookError", "Found", "Json", "LeaseLost", "NotHappened",
    "Permanent", "Policy", "Snooze", "Stopping", "Worker", "ask", "checked", "dumps", "keyed", "loads", "new_id",
    "repeatable",
]  # fmt: skip
