"""The programs of docs/cutover/rq.md: what stands between "guide:" and "guide: end" is in
the guide word for word. As a script it is a producer, told by its argument how to put
one job in: old, deploy or double. RQ's workers import it."""
import json
import os
import sys
import uuid

import psycopg2
import rq
from redis import Redis
from rq.serializers import JSONSerializer

connection = psycopg2.connect(os.environ["DATABASE_URL"])
queue = rq.Queue("mail", connection=Redis.from_url(os.environ["OLD_URL"]), serializer=JSONSerializer)


def old():
    queue.enqueue("mail.welcome", 7)


def deploy():
    # guide: Switched by deploy
    # was: queue.enqueue("mail.welcome", 7)
    with connection, connection.cursor() as c:  # commits in the end
        c.execute("SELECT daybook.enqueue(queue => 'mail', kind => 'welcome', args => %s)", (json.dumps([7]),))
    # guide: end


def double():
    # guide: Written to both
    job_id = str(uuid.uuid4())
    with connection, connection.cursor() as c:
        c.execute("SELECT daybook.enqueue(queue => 'mail', kind => 'welcome', args => %s, key => %s)",
                  (json.dumps([7]), job_id))
    queue.enqueue("mail.welcome", 7, job_id=job_id)
    # guide: end


# guide: Old handlers that still may start
def welcome(user):
    with connection, connection.cursor() as c:
        c.execute("""SELECT FROM daybook.cutover_item WHERE cutover = 'mail' AND id = %s
            AND term NOT IN ('still', 'finished', 'returned')""", (rq.get_current_job().id,))
        if c.fetchone() is not None:
            return  # the book has it
    send(user)
# guide: end


def send(_user):
    with open(os.environ["RUNS"], "ab", buffering=0) as runs:
        runs.write(f"{rq.get_current_job().id}\n".encode())


if __name__ == "__main__":
    {"old": old, "deploy": deploy, "double": double}[sys.argv[1]]()
