"""What RQ's workers run in tests. A job that is done appends its id to RUN_LOG, in
one write."""
import os
import time

from rq import get_current_job

LOG = os.environ["RUN_LOG"]


def send(what):
    if what == "fail":
        raise RuntimeError("boom")
    while what == "hang" and os.path.exists(LOG + ".hang"):
        time.sleep(0.1)
    with open(LOG, "ab", buffering=0) as log:
        log.write((get_current_job().id + "\n").encode())
