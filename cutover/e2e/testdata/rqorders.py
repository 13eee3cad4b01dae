"""Producer and jobs of an RQ queue: a job writes how far it came into the file RUNS. As
a script it produces the orders of standard input, one [number, how, seconds] a line."""
import json
import os
import sys
import time
from datetime import timedelta


def say(what, number):
    with open(os.environ["RUNS"], "ab", buffering=0) as runs:
        runs.write(f"{what} {number}\n".encode())


def mail(number, how):
    say("start", number)
    # RQ runs each job in a process of its own, in a session of its own. What kills a
    # whole machine kills both, so a slow job goes when its worker is gone.
    worker, until = os.getppid(), time.monotonic() + (600 if how == "slow" else 0.01)
    while time.monotonic() < until:
        if how == "slow" and os.getppid() != worker:
            os._exit(1)
        time.sleep(0.01)
    while how == "late" and not os.path.exists(os.environ["RUNS"] + ".go"):
        time.sleep(0.1)
    if how == "fail":
        raise RuntimeError("boom")
    say("done", number)


def produce():
    from redis import Redis
    from rq import Queue, Retry
    from rq.serializers import JSONSerializer

    queue = Queue("mail", connection=Redis.from_url(os.environ["OLD_URL"]), serializer=JSONSerializer)
    again = Retry(max=5, interval=3600)
    for line in sys.stdin:
        number, how, seconds = json.loads(line)
        more = {"job_id": how.split("=")[1]} if how.startswith("id=") else {}
        if seconds > 0:
            queue.enqueue_in(timedelta(seconds=seconds), "rqorders.mail", number, how, retry=again, **more)
        else:
            queue.enqueue("rqorders.mail", number, how, retry=again, **more)


if __name__ == "__main__":
    produce()
