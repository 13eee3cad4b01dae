"""Enqueues jobs as it reads lines of ID STATE from its input, and answers each with
a line."""
import os
import sys
from datetime import timedelta

from redis import Redis
from rq import Queue, Retry

sys.path.insert(0, os.path.dirname(__file__))
import jobs

queue = Queue("mail", connection=Redis.from_url(os.environ["OLD_URL"]))
for line in sys.stdin:
    job, state = line.split()
    if state == "later":
        queue.enqueue_in(timedelta(days=1), jobs.send, "ok", job_id=job)
    elif state == "retrying":
        queue.enqueue(jobs.send, "fail", job_id=job, retry=Retry(max=5, interval=3600))
    else:
        queue.enqueue(jobs.send, {"dead": "fail", "hang": "hang"}.get(state, "ok"), job_id=job)
    print(job, flush=True)
