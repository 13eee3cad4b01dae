-- The book in plain SQL: what a program in any language does, step by step.
--
--   psql "$DATABASE_URL" -f walkthrough.sql
--
-- It wants the book's schema in the database (daybook schema up) and leaves its
-- jobs there.
\set ON_ERROR_STOP on
\pset tuples_only on
\pset format unaligned

CREATE TEMP TABLE account (email text PRIMARY KEY, mailed_at timestamptz);

\echo == Enqueue beside your own data: both are there after the commit, or neither is
BEGIN;
INSERT INTO account VALUES ('ada@example.org');
SELECT id AS job, replayed FROM daybook.enqueue('walkthrough', 'welcome', '{"to": "ada@example.org"}',
    key => 'welcome ada@example.org ' || pg_backend_pid() || clock_timestamp()) \gset
COMMIT;
SELECT state, kind, args ->> 'to' FROM daybook.jobs WHERE id = :'job';

\echo == The same key again is the same job, and no second one
SELECT key FROM daybook.jobs WHERE id = :'job' \gset
SELECT id = :'job' AS same, replayed
FROM daybook.enqueue('walkthrough', 'welcome', '{"to":"ada@example.org"}', key => :'key');

\echo == Claim: without a session, one is started
SELECT session, id, generation, kind, args FROM daybook.claim('{walkthrough}', 'psql', 1) \gset
SELECT state, worker, generation FROM daybook.jobs WHERE id = :'id';

\echo == Renew before the lease ends, for all that the session claimed
SELECT lease_until > now() AS longer, cancel FROM daybook.renew(:'session');

\echo == Your own writes and the completion in one transaction: here once means once
BEGIN;
SELECT daybook.assert_owner(:'id', :generation, :'session');
UPDATE account SET mailed_at = now() WHERE email = :'args'::json ->> 'to';
SELECT id AS follow_up FROM daybook.enqueue('walkthrough', 'follow-up', :'args', run_in => '3 days') \gset
SELECT daybook.complete(:'id', :generation, :'session', '{"mailed": 1}');
COMMIT;
SELECT state, result FROM daybook.jobs WHERE id = :'id';

\echo == The answer was lost? Say it again
SELECT daybook.complete(:'id', :generation, :'session', '{"mailed": 2}');

\echo == An owner that was replaced is refused, rolls back, and leaves its word as evidence
\set ON_ERROR_STOP off
SELECT daybook.fail(:'id', :generation, :'session', 'too late');
\echo :SQLSTATE
\set ON_ERROR_STOP on
SELECT daybook.report_fenced(:'id', :generation, :'session', 'fail', 'too late');

\echo == A failure waits and is tried again; a permanent one is set aside for a person
SELECT id FROM daybook.enqueue('walkthrough', 'welcome', '{"to": "nobody"}', max_failures => 3) \gset
SELECT id, generation FROM daybook.claim('{walkthrough}', 'psql', 1, :'session') \gset
SELECT daybook.fail(:'id', :generation, :'session', 'the mail server is away', retry_in => '0 s');
SELECT id, generation FROM daybook.claim('{walkthrough}', 'psql', 1, :'session') \gset
SELECT daybook.fail(:'id', :generation, :'session', 'no such address', permanent => true);
SELECT state, reason, failures, last_error FROM daybook.jobs WHERE id = :'id';
SELECT generation, outcome, error FROM daybook.attempts WHERE job = :'id' ORDER BY generation;

\echo == What is there to do
SELECT kind, eligible, later, running, set_aside FROM daybook.backlog WHERE queue = 'walkthrough' ORDER BY kind;
