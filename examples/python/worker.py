#!/usr/bin/env python3
"""A worker: mails each account its welcome.

    DATABASE_URL=postgres://… ./worker.py [--drain]

Wants psycopg2 (Debian: python3-psycopg2). --drain ends when nothing is left to do.
"""
import json
import os
import random
import signal
import sys
import threading

import psycopg2

LEASE = 30  # seconds


class Permanent(Exception):
    """Trying again would be useless."""


def handle(q, args):
    """The work: what this cursor writes and the completion are one transaction."""
    if "@" not in args["to"]:
        raise Permanent("no address: " + args["to"])
    q.execute("UPDATE account SET mailed_at = now() WHERE email = %s", (args["to"],))
    return {"mailed": q.rowcount}


def fenced(error):
    """The job is somebody else's by now, or the session has ended."""
    return getattr(error, "pgcode", None) == "OB001"


def call(db, query, values):
    with db, db.cursor() as q:
        q.execute("SELECT * FROM daybook." + query, values)
        return q.fetchall()


def run(db, claim, args):
    """Runs one claim (job, generation, session) and says how it ended."""
    said, operation = "", "complete"
    try:
        try:
            with db, db.cursor() as q:
                q.execute("SELECT daybook.assert_owner(%s, %s, %s)", claim)
                said = json.dumps(handle(q, args))
                q.execute("SELECT daybook.complete(%s, %s, %s, %s)", claim + (said,))
        except Exception as e:
            if db.closed or fenced(e):
                raise
            said, operation = f"{type(e).__name__}: {e}", "fail"
            call(db, "fail(%s, %s, %s, %s, permanent => %s)", claim + (said, isinstance(e, Permanent)))
    except psycopg2.Error as e:
        if db.closed or not fenced(e):
            raise  # the lease will run out, and the job is tried again
        call(db, "report_fenced(%s, %s, %s, %s, %s)", claim + (operation, said))  # kept as evidence


def renew(session, ended):
    """Keeps the lease while handlers run, on a connection of its own."""
    db = psycopg2.connect(os.environ["DATABASE_URL"])
    while not ended.wait(LEASE / 3):
        call(db, "renew(%s)", (session,))


def main(drain, stop):
    db = psycopg2.connect(os.environ["DATABASE_URL"])
    session, ended = None, None
    while not stop.is_set():
        try:  # committed before anything runs
            claims = call(db, "claim('{welcome}', 'python', 10, %s, %s)", (session, f"{LEASE} s"))
        except psycopg2.Error as e:
            if not fenced(e):
                raise
            ended.set()
            session = None  # it was away for too long: start another
            continue
        if claims and session is None:
            session, ended = claims[0][0], threading.Event()
            threading.Thread(target=renew, args=(session, ended), daemon=True).start()
        for owner, job, generation, _, args, _ in claims:
            run(db, (job, generation, owner), args)
        if not claims and drain:
            break
        if not claims:
            stop.wait(random.uniform(4, 6))


if __name__ == "__main__":
    told = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: told.set())
    main("--drain" in sys.argv, told)
