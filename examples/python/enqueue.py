#!/usr/bin/env python3
"""Signs accounts up and asks for their welcome mails, in one transaction each.

    DATABASE_URL=postgres://… ./enqueue.py ada@example.org eve@example.org

Wants psycopg2 (Debian: python3-psycopg2). The schema comes from daybook schema up.
"""
import json
import os
import sys

import psycopg2


def sign_up(db, email):
    """The account and the job are there after the commit, or neither is. The
    key makes a repeat, after a lost answer say, find the same job."""
    with db, db.cursor() as q:
        q.execute("INSERT INTO account (email) VALUES (%s) ON CONFLICT DO NOTHING", (email,))
        q.execute("SELECT id, replayed FROM daybook.enqueue('welcome', 'mail', %s, key => %s)",
                  (json.dumps({"to": email}), "welcome " + email))
        return q.fetchone()


def main(emails):
    db = psycopg2.connect(os.environ["DATABASE_URL"])
    with db, db.cursor() as q:
        q.execute("CREATE TABLE IF NOT EXISTS account (email text PRIMARY KEY, mailed_at timestamptz)")
    for email in emails:
        job, replayed = sign_up(db, email)
        print(job, "again" if replayed else "new", email)


if __name__ == "__main__":
    main(sys.argv[1:])
