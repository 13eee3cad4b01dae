"""Sends the mails, by a relay that knows a key for a day."""

import logging
import sys
from typing import Any, Dict

from daybook import Call, Claim, Client, NotHappened, Permanent, Worker, keyed

worker = Worker(Client(), ["mail"], concurrency=5)


def relay(to: str, call: Call) -> Dict[str, Any]:
    """Stands for a call like requests.post(…, headers={"Idempotency-Key": call.key},
    timeout=call.remaining())."""
    if to.endswith(".invalid"):
        raise NotHappened("the relay said no")  # certainly not; any other error leaves it open
    return {"mailed": to, "key": call.key}


@worker.handle("welcome")
def welcome(claim: Claim) -> Any:
    to = claim.args["to"]
    if "@" not in to:
        raise Permanent("no address: " + to)  # trying again can't cure it
    return claim.effect("mail", keyed(days=1), lambda call: relay(to, call))


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO)
    worker.run(drain="--drain" in sys.argv)
