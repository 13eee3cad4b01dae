-- Pausing a queue answers after every claim that began before it has ended: a
-- claim holds the shared side of one lock of the book until it commits, and who
-- pauses waits for the other side. Each wants a statement of its own before
-- those that look at the queue: what a statement sees was fixed before it waited.

-- What the book's lock is called: a number that no other schema's book has. It
-- is an expression and no query, since every claim asks for it.
CREATE OR REPLACE FUNCTION daybook.claims_lock() RETURNS int LANGUAGE sql STABLE
AS $$ SELECT (pg_typeof(NULL::daybook.queue)::oid::bigint % 2147483647)::int $$;

CREATE OR REPLACE FUNCTION daybook.claims_shared() RETURNS void LANGUAGE sql VOLATILE
AS $$ SELECT pg_advisory_xact_lock_shared(20011, daybook.claims_lock()) $$;

CREATE OR REPLACE FUNCTION daybook.claims_exclusive() RETURNS void LANGUAGE sql VOLATILE
AS $$ SELECT pg_advisory_xact_lock(20011, daybook.claims_lock()) $$;
