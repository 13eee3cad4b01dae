"""Some workers in one process: each a session of its own. Says each job that it runs."""

import logging
import os
import signal
import sys
import threading

from daybook import Claim, Client, Worker


def handler(claim: Claim) -> object:
    os.write(1, b"ran %s\n" % claim.id.encode())
    return claim.args


logging.basicConfig(level=logging.WARNING)
client = Client()
workers = [Worker(client, [sys.argv[1]], name="python-%d" % n, concurrency=2) for n in range(int(sys.argv[2]))]
threads = []
for worker in workers:
    worker.handle(None, handler)
    threads.append(threading.Thread(target=worker.run))
    threads[-1].start()
signal.signal(signal.SIGTERM, lambda *_: threading.Thread(target=lambda: [w.stop() for w in workers]).start())
for thread in threads:
    while thread.is_alive():  # so that the signal is heard
        thread.join(0.1)
