-- claim and renew for any language.

-- Holds a claim to its limits.
CREATE OR REPLACE FUNCTION daybook.check_claim(queues text[], worker text, max_jobs int) RETURNS void
LANGUAGE plpgsql IMMUTABLE
AS $$
DECLARE
    most  CONSTANT int := 10000; -- BatchMax and QueuesMax
    queue text;
BEGIN
    IF coalesce(max_jobs, 0) NOT BETWEEN 1 AND most THEN
        RAISE EXCEPTION 'max_jobs: wants 1…%, got %', most, coalesce(max_jobs::text, 'NULL') USING ERRCODE = 'OB004';
    ELSIF coalesce(cardinality(queues), 0) = 0 THEN
        RAISE EXCEPTION 'queues: is empty; name at least one queue' USING ERRCODE = 'OB004';
    ELSIF cardinality(queues) > most THEN
        RAISE EXCEPTION 'queues: at most %, got %', most, cardinality(queues) USING ERRCODE = 'OB004';
    END IF;
    FOREACH queue IN ARRAY queues LOOP
        PERFORM daybook.check_name('queue', queue);
    END LOOP;
    PERFORM daybook.check_text('worker', worker, 255);
END $$;

-- Starts a session: one start of one worker process. Its number is random, since
-- a failover can repeat what is counted.
CREATE OR REPLACE FUNCTION daybook.start_session(p_worker text, p_lease interval, queues text[]) RETURNS daybook.session
LANGUAGE plpgsql
AS $$
DECLARE
    digits CONSTANT text := replace(gen_random_uuid()::text, '-', '');
    now_at CONSTANT bigint := daybook.clock();
    s      daybook.session;
BEGIN
    s.lease := coalesce(daybook.length_of('lease', p_lease, 1000000, 86400000000, '1 second to 24 hours'), 30000000);
    INSERT INTO daybook.session AS w (n, id, worker, lease, started_at, renewed_at, expires_at, queues)
        VALUES (('x' || left(digits, 12) || right(digits, 4))::bit(64)::bigint & 9223372036854775807, daybook.new_id(),
            coalesce(nullif(p_worker, ''), 'worker'), s.lease, now_at, now_at, now_at + s.lease, to_json(queues)::text)
        RETURNING w.* INTO s;
    RETURN s;
END $$;

-- Finds a session for a claim, and keeps it from ending until the transaction
-- does. Below half of its lease it is renewed.
CREATE OR REPLACE FUNCTION daybook.session_to_claim(p_session uuid) RETURNS daybook.session
LANGUAGE plpgsql SET enable_seqscan = off
AS $$
DECLARE
    s daybook.session;
BEGIN
    SELECT w.* INTO s FROM daybook.session w WHERE w.id = p_session;
    IF s.expires_at - daybook.clock() < s.lease / 2 AND s.ended_at IS NULL AND NOT s.quiet THEN
        RETURN daybook.renewed_session(p_session); -- its lock comes first: two who share one can't both renew
    END IF;
    SELECT w.* INTO s FROM daybook.session w WHERE w.id = p_session FOR SHARE;
    PERFORM daybook.check_live(p_session, s.id, s.ended_at);
    RETURN s;
END $$;

-- Refuses a session that nobody knows or that has ended.
CREATE OR REPLACE FUNCTION daybook.check_live(asked uuid, known uuid, ended_at bigint) RETURNS void
LANGUAGE plpgsql STABLE
AS $$
BEGIN
    IF known IS NULL THEN
        RAISE EXCEPTION 'no session %; start a new one', asked USING ERRCODE = 'OB001';
    ELSIF ended_at IS NOT NULL THEN
        RAISE EXCEPTION 'session % ended at %; its claims were taken back; start a new one', asked,
            daybook.stamp(ended_at) USING ERRCODE = 'OB001';
    END IF;
END $$;

-- Extends a session's lease from now, and forgets a mark.
CREATE OR REPLACE FUNCTION daybook.renewed_session(p_session uuid) RETURNS daybook.session
LANGUAGE plpgsql SET enable_seqscan = off
AS $$
DECLARE
    s daybook.session;
BEGIN
    SELECT w.* INTO s FROM daybook.session w WHERE w.id = p_session FOR NO KEY UPDATE;
    PERFORM daybook.check_live(p_session, s.id, s.ended_at);
    s.renewed_at := daybook.clock();
    s.expires_at := s.renewed_at + s.lease;
    s.marked_at := NULL;
    UPDATE daybook.session w SET renewed_at = s.renewed_at, expires_at = s.expires_at, marked_at = NULL WHERE w.n = s.n;
    RETURN s;
END $$;

-- What a claim call was given before and its session still owns.
CREATE OR REPLACE FUNCTION daybook.claimed_before(p_call uuid)
    RETURNS TABLE (session uuid, id uuid, generation bigint, kind text, args text, lease_until bigint)
LANGUAGE plpgsql
AS $$
DECLARE
    c daybook.call;
BEGIN
    SELECT w.* INTO c FROM daybook.call w WHERE w.id = p_call;
    RETURN QUERY SELECT s.id, o.id, o.generation, j.kind, j.args, s.expires_at FROM daybook.owned o
        JOIN daybook.job j ON j.id = o.id LEFT JOIN daybook.session s ON s.n = o.session
        WHERE o.call = c.n AND o.session = c.session ORDER BY j.rank, coalesce(j.run_at, j.enqueued_at), j.seq;
END $$;

-- Takes jobs: see claim.
CREATE OR REPLACE FUNCTION daybook.claim_work(p_queues text[], p_worker text, p_max int, p_session uuid,
    p_lease interval, p_call uuid)
    RETURNS TABLE (session uuid, id uuid, generation bigint, kind text, args text, lease_until bigint)
LANGUAGE plpgsql
AS $$
DECLARE
    s      daybook.session;
    first  int := 1 + floor(random() * cardinality(p_queues));
    oldest boolean := random() < 1.0 / 8; -- so that low priority can't starve
BEGIN
    PERFORM daybook.check_claim(p_queues, p_worker, p_max);
    IF EXISTS (SELECT 1 FROM daybook.call c WHERE c.id = p_call) THEN
        RETURN QUERY SELECT * FROM daybook.claimed_before(p_call);
        RETURN;
    ELSIF p_session IS NULL THEN
        s := daybook.start_session(p_worker, p_lease, p_queues);
    ELSE
        s := daybook.session_to_claim(p_session);
    END IF;
    IF s.quiet THEN
        RETURN;
    END IF;
    IF current_setting('transaction_isolation') <> 'read committed' THEN
        -- An old snapshot would not see a pause; the lock does, and says so (40001).
        PERFORM 1 FROM daybook.queue q WHERE q.name = ANY (p_queues) ORDER BY q.n FOR SHARE;
    END IF;
    RETURN QUERY SELECT s.id, c.id, c.generation, c.kind, c.args, s.expires_at
        FROM daybook.claim_jobs(s.id, p_call, daybook.current_incarnation(), p_queues[first:] || p_queues[:first - 1],
            NULL, coalesce(p_max, 1), oldest, NULL, NULL, NULL, NULL, NULL, true, false) c
        WHERE c.id IS NOT NULL ORDER BY c.rank, coalesce(c.run_at, c.enqueued_at), c.seq;
    IF NOT FOUND AND p_session IS NULL THEN
        DELETE FROM daybook.session w WHERE w.n = s.n; -- nobody learns of it
    END IF;
END $$;

-- Gives up to max_jobs eligible jobs of these queues to a session. Without a
-- session one is started, with that worker's name and lease, and is in the rows;
-- name it from then on. When there is nothing to do there are no rows, and no
-- session was started. Repeating a call by its id gives the same claims again:
-- then a lost answer costs nothing. OB001 says that the session has ended: claim
-- without one.
--
-- Commit before you begin to work: until then the claim is nobody's, and a rollback
-- gives the jobs back.
CREATE OR REPLACE FUNCTION daybook.claim(queues text[], worker text, max_jobs int, session uuid DEFAULT NULL,
    lease interval DEFAULT '30 s', call uuid DEFAULT NULL)
    RETURNS TABLE (session uuid, id uuid, generation bigint, kind text, args json, lease_until timestamptz) LANGUAGE sql
AS $$ SELECT c.session, c.id, c.generation, c.kind, c.args::json, daybook.instant(c.lease_until)
    FROM daybook.claim_work($1, $2, $3, $4, $5, $6) c $$;

-- Extends a session's lease from now, for all that it has claimed. cancel lists
-- the jobs that a person asked to cancel: stop, and report how they ended; quiet
-- asks to claim no more. OB001 says that the session has ended: its jobs are
-- somebody else's.
CREATE OR REPLACE FUNCTION daybook.renew(session uuid,
    OUT lease_until timestamptz, OUT cancel uuid[], OUT quiet boolean) LANGUAGE plpgsql
AS $$
DECLARE
    s daybook.session := daybook.renewed_session(session);
BEGIN
    lease_until := daybook.instant(s.expires_at);
    cancel := ARRAY(SELECT o.id FROM daybook.owned o WHERE o.session + 0 = s.n AND o.cancel_requested_at IS NOT NULL
        ORDER BY o.seq);
    quiet := s.quiet;
END $$;
