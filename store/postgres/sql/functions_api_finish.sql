-- What an owner says of its claim, in any language and inside its own
-- transaction: assert_owner, complete, fail, release. An owner that was replaced
-- is refused (OB001) and has changed nothing: roll back, drop the job, and keep
-- what it said with report_fenced, in a transaction of its own.

-- Refuses a claim that isn't named in full.
CREATE OR REPLACE FUNCTION daybook.check_named(id uuid, generation bigint, session uuid) RETURNS void
LANGUAGE plpgsql IMMUTABLE
AS $$
BEGIN
    IF id IS NULL OR generation IS NULL OR session IS NULL THEN
        RAISE EXCEPTION '%: is missing; a claim is named by id, generation and session',
            CASE WHEN id IS NULL THEN 'id' WHEN generation IS NULL THEN 'generation' ELSE 'session' END
            USING ERRCODE = 'OB004';
    END IF;
END $$;

-- Locks a job and its claim, in this order, and reads them; own is NULL unless
-- this generation and session own the job now.
CREATE OR REPLACE FUNCTION daybook.lock_claim(p_id uuid, p_generation bigint, p_session uuid,
    OUT job daybook.job, OUT own daybook.owned, OUT worker text) LANGUAGE plpgsql SET enable_seqscan = off
AS $$
DECLARE
    owner uuid;
BEGIN
    PERFORM daybook.check_named(p_id, p_generation, p_session);
    SELECT j.* INTO job FROM daybook.job j WHERE j.id = p_id FOR UPDATE;
    SELECT o.* INTO own FROM daybook.owned o WHERE o.id = p_id FOR UPDATE;
    SELECT s.id, s.worker INTO owner, worker FROM daybook.session s WHERE s.n = own.session;
    IF own.generation IS DISTINCT FROM p_generation OR owner IS DISTINCT FROM p_session THEN
        own := NULL;
    END IF;
END $$;

-- Answers who doesn't own a job now. The same owner that says the same again is
-- told where the job stands: its first word holds. Anybody else is fenced.
-- outcome is what would be recorded: see ended; 0 is nothing.
CREATE OR REPLACE FUNCTION daybook.not_owner(p_id uuid, p_generation bigint, p_session uuid, p_outcome int) RETURNS text
LANGUAGE plpgsql SET enable_seqscan = off
AS $$
DECLARE
    now  record;
    past record;
    owner bigint := (SELECT s.n FROM daybook.session s WHERE s.id = p_session);
BEGIN
    SELECT v.state, v.generation, j.seq INTO now FROM daybook.jobs v JOIN daybook.job j ON j.id = v.id
        WHERE v.id = p_id;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'no job %; finished jobs are kept for the retention only', p_id USING ERRCODE = 'OB001';
    END IF;
    SELECT e.outcome, e.through INTO past FROM daybook.ended e
        WHERE e.seq = now.seq AND e.generation = p_generation AND e.session = owner;
    IF p_outcome > 0 AND past.outcome = p_outcome
        OR p_outcome > 1 AND (past.outcome = 5 AND past.through IS NULL OR past.outcome = 6) THEN
        RETURN now.state;
    ELSIF now.state <> 'running' THEN
        RAISE EXCEPTION 'job % is % at generation %; generation % no longer owns it: roll back and drop it', p_id,
            now.state, now.generation, p_generation USING ERRCODE = 'OB001';
    ELSIF now.generation <> p_generation THEN
        RAISE EXCEPTION 'job % is at generation %; generation % doesn''t own it: roll back and drop it', p_id,
            now.generation, p_generation USING ERRCODE = 'OB001';
    END IF;
    RAISE EXCEPTION 'job % is owned by another session at generation %: roll back and drop it', p_id, now.generation
        USING ERRCODE = 'OB001';
END $$;

-- Locks the claim until the transaction ends: nobody takes the job away
-- meanwhile. Call it before your own writes and complete behind them: then they
-- and the completion are one.
CREATE OR REPLACE FUNCTION daybook.assert_owner(id uuid, generation bigint, session uuid) RETURNS void LANGUAGE plpgsql
AS $$
BEGIN
    IF (daybook.lock_claim(id, generation, session)).own IS NULL THEN
        PERFORM daybook.not_owner(id, generation, session, 0);
    END IF;
END $$;

-- Ends the job well, and answers where it stands: succeeded, also when the same
-- owner said so before (the first result stays). OB003 says which effect is
-- still open. A result that can't be kept (too large, a key twice, \u0000) fails
-- the attempt for good: running again would make the same one.
CREATE OR REPLACE FUNCTION daybook.complete(id uuid, generation bigint, session uuid, result json DEFAULT NULL)
    RETURNS text LANGUAGE plpgsql SET enable_seqscan = off
AS $$
DECLARE
    wrong  text := daybook.wrong_result(result);
    own    daybook.owned;
    effect text;
    now_at bigint;
BEGIN
    PERFORM daybook.check_named(id, generation, session);
    IF wrong IS NOT NULL THEN
        RETURN daybook.end_badly(id, generation, session, wrong, 'result', true, NULL);
    END IF;
    SELECT o.* INTO own FROM daybook.owned o JOIN daybook.session s ON s.n = o.session
        WHERE o.id = complete.id AND o.generation = complete.generation AND s.id = complete.session FOR UPDATE OF o;
    IF NOT FOUND THEN
        RETURN daybook.not_owner(id, generation, session, 1);
    END IF;
    SELECT e.name INTO effect FROM daybook.effect e WHERE e.seq = own.seq AND e.state = 'open' ORDER BY e.name LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION 'job %: effect % is open; finish it before completing', id, daybook.shown(effect)
            USING ERRCODE = 'OB003';
    END IF;
    now_at := daybook.clock();
    INSERT INTO daybook.ended (filed_at, seq, generation, session, claimed_at, outcome, started_at, result)
        VALUES (now_at, own.seq, own.generation, own.session, own.claimed_at, 1, own.started_at, result::text);
    DELETE FROM daybook.owned o WHERE o.id = own.id;
    INSERT INTO daybook.outbox (at, queue, ring, running, succeeded) VALUES (now_at, own.queue, false, -1, 1);
    RETURN 'succeeded';
END $$;

-- Why a result can't be kept, or NULL.
CREATE OR REPLACE FUNCTION daybook.wrong_result(result json) RETURNS text LANGUAGE plpgsql IMMUTABLE
AS $$
DECLARE
    most CONSTANT int := 1048576; -- ResultMax
BEGIN
    RETURN 'result: ' || CASE WHEN octet_length(result::text) > most
        THEN 'at most ' || most || ' bytes, got ' || octet_length(result::text)
        ELSE (daybook.read_json(result)).wrong END;
END $$;

-- Ends an attempt that failed: see fail. kind is what sort of error it was.
CREATE OR REPLACE FUNCTION daybook.end_badly(p_id uuid, p_generation bigint, p_session uuid, p_error text, p_kind text,
    permanent boolean, delay bigint) RETURNS text LANGUAGE plpgsql
AS $$
DECLARE
    c      record := daybook.lock_claim(p_id, p_generation, p_session);
    now_at bigint := daybook.clock();
    said   record := daybook.bounded(p_error, 16384); -- ErrorMax
    job    daybook.job := c.job;
    past   daybook.ended;
BEGIN
    IF c.own IS NULL THEN
        RETURN daybook.not_owner(p_id, p_generation, p_session, 2);
    END IF;
    past := daybook.attempt_of(c.own, c.worker, 2, now_at);
    past.error := said.said;
    past.error_kind := p_kind;
    past.cut := nullif(said.cut, false);
    job.failures := coalesce(job.failures, 0) + 1;
    IF permanent THEN
        RETURN daybook.give_back(job, c.own, past, 'permanent', NULL);
    ELSIF job.failures >= coalesce(job.max_failures, 20) THEN
        RETURN daybook.give_back(job, c.own, past, 'failures', NULL);
    END IF;
    RETURN daybook.give_back(job, c.own, past, NULL, now_at + coalesce(delay, daybook.retry_delay(job.failures)));
END $$;

-- Counts a failure, and answers where the job stands: waiting for its next
-- attempt, or set_aside at the limit or when the error is permanent. retry_in is
-- when; NULL is the curve. The error's text is cut at 16 KiB and marked.
CREATE OR REPLACE FUNCTION daybook.fail(id uuid, generation bigint, session uuid, error text,
    permanent boolean DEFAULT false, retry_in interval DEFAULT NULL) RETURNS text LANGUAGE sql
AS $$ SELECT daybook.end_badly($1, $2, $3, $4, NULL, $5, daybook.delay_of('retry_in', $6)) $$;

-- How long to wait after so many failures: a second, doubling, at most an hour,
-- spread by a tenth either way.
CREATE OR REPLACE FUNCTION daybook.retry_delay(failures int) RETURNS bigint LANGUAGE sql VOLATILE
AS $$ SELECT floor(least(3600, least(3600, 2 ^ least($1 - 1, 12)) * (0.9 + 0.2 * random())) * 1000000)::bigint $$;

-- Ends an attempt without blame: see release.
CREATE OR REPLACE FUNCTION daybook.put_back(p_id uuid, p_generation bigint, p_session uuid, delay bigint) RETURNS text
LANGUAGE plpgsql
AS $$
DECLARE
    snooze_max CONSTANT bigint := 30 * 86400000000;
    c      record := daybook.lock_claim(p_id, p_generation, p_session);
    now_at bigint := daybook.clock();
    past   daybook.ended;
    since  bigint;
BEGIN
    IF c.own IS NULL THEN
        RETURN daybook.not_owner(p_id, p_generation, p_session, 3);
    END IF;
    past := daybook.attempt_of(c.own, c.worker, 3, now_at);
    since := coalesce((c.job).first_claimed_at, past.claimed_at);
    IF delay > 0 AND now_at - since >= snooze_max AND (c.own).cancel_requested_at IS NULL THEN
        past.why := 'snoozed since ' || daybook.stamp(since);
        RETURN daybook.give_back(c.job, c.own, past, 'gave_up', NULL);
    END IF;
    RETURN daybook.give_back(c.job, c.own, past, NULL, now_at + delay);
END $$;

-- Gives the claim back without blame, at once or after run_in, and answers where
-- the job stands: waiting, or set_aside when it was put off so for 30 days.
CREATE OR REPLACE FUNCTION daybook.release(id uuid, generation bigint, session uuid, run_in interval DEFAULT NULL)
    RETURNS text LANGUAGE sql
AS $$ SELECT daybook.put_back($1, $2, $3, coalesce(daybook.delay_of('run_in', $4), 0)) $$;

-- The history of a claim that ends now.
CREATE OR REPLACE FUNCTION daybook.attempt_of(own daybook.owned, worker text, outcome int, now_at bigint)
    RETURNS daybook.ended LANGUAGE plpgsql IMMUTABLE
AS $$
DECLARE
    past daybook.ended;
BEGIN
    past.filed_at := now_at;
    past.seq := own.seq;
    past.generation := own.generation;
    past.session := own.session;
    past.claimed_at := own.claimed_at;
    past.started_at := own.started_at;
    past.outcome := outcome;
    past.worker := nullif(worker, '');
    RETURN past;
END $$;

-- Ends an attempt that is no success: to waiting at p_run_at, set aside for a
-- reason, or cancelled when a person asked for that. Job and claim are locked,
-- and p_job.failures is what it is to be.
CREATE OR REPLACE FUNCTION daybook.give_back(p_job daybook.job, p_own daybook.owned, p_past daybook.ended,
    p_reason text, p_run_at bigint) RETURNS text LANGUAGE plpgsql SET enable_seqscan = off
AS $$
DECLARE
    latest   CONSTANT bigint := 253402300799999999; -- TimeMax
    now_at   CONSTANT bigint := p_past.filed_at;
    to_state CONSTANT text := CASE WHEN p_own.cancel_requested_at IS NOT NULL THEN 'cancelled'
        WHEN p_reason IS NOT NULL THEN 'set_aside' ELSE 'waiting' END;
    due      CONSTANT bigint := CASE to_state WHEN 'waiting' THEN least(p_run_at, latest) END;
BEGIN
    DELETE FROM daybook.owned o WHERE o.id = p_own.id;
    UPDATE daybook.job j SET state = CASE to_state WHEN 'waiting' THEN 0 WHEN 'set_aside' THEN 4 ELSE 5 END,
            run_at = coalesce(due, j.run_at), generation = p_own.generation, failures = nullif(p_job.failures, 0),
            first_claimed_at = coalesce(j.first_claimed_at, p_own.claimed_at),
            ended_at = CASE WHEN to_state <> 'waiting' THEN now_at END,
            reason = CASE to_state WHEN 'set_aside' THEN p_reason END
        WHERE j.seq = p_own.seq;
    IF to_state = 'waiting' THEN
        INSERT INTO daybook.ready (run_at, seq, lane, rank, suspect, ledger, kind, expires_at)
            VALUES (due, p_job.seq, p_job.queue, p_job.rank, daybook.is_suspect(p_job.crashes, p_job.max_failures),
                EXISTS (SELECT 1 FROM daybook.effect e WHERE e.seq = p_job.seq), p_job.kind, p_job.expires_at);
    ELSIF to_state = 'set_aside' THEN
        INSERT INTO daybook.event (seq, at, generation, what, detail)
            VALUES (p_job.seq, now_at, p_own.generation, 'set aside', p_reason);
    ELSIF p_past.outcome <> 6 THEN
        p_past.outcome := 5;
    END IF;
    PERFORM daybook.file_attempt(p_past);
    INSERT INTO daybook.outbox (at, queue, ring, running, waiting, set_aside, cancelled, ever_set_aside, ever_cancelled)
        VALUES (now_at, p_job.queue, to_state = 'waiting' AND due <= now_at, -1, nullif((to_state = 'waiting')::int, 0),
            nullif((to_state = 'set_aside')::int, 0), nullif((to_state = 'cancelled')::int, 0),
            nullif((to_state = 'set_aside')::int, 0), nullif((to_state = 'cancelled')::int, 0));
    RETURN to_state;
END $$;

-- Appends an attempt to the history. Two plain releases before it become one
-- row, unless the handler keeps a ledger; the newest stays, so that its repeat
-- finds it.
CREATE OR REPLACE FUNCTION daybook.file_attempt(p_past daybook.ended) RETURNS void
LANGUAGE plpgsql SET enable_seqscan = off
AS $$
BEGIN
    IF p_past.outcome = 3 AND NOT EXISTS (SELECT 1 FROM daybook.effect e
            WHERE e.seq = p_past.seq AND e.name <> 'handler') THEN
        PERFORM daybook.fold_releases(p_past.seq);
    END IF;
    INSERT INTO daybook.ended SELECT p_past.*;
END $$;

-- Whether a job crashed so often that a session is given one like it at a time.
CREATE OR REPLACE FUNCTION daybook.is_suspect(crashes int, max_failures int) RETURNS boolean LANGUAGE sql IMMUTABLE
AS $$ SELECT c.most > 1 AND coalesce($1, 0) >= least(2, c.most - 1)
    FROM (SELECT least(5, coalesce($2, 20)) AS most) c $$;

-- Keeps what a fenced owner wanted to say, once per claim and operation, as
-- evidence: call it in a transaction of its own after the one that was refused.
-- A generation that the job has not reached is proof that the database lost
-- commits, and is noted as that. The operation is complete, fail and so on; of an
-- effect it is effect_begin:NAME, or effect_finish:NAME with the outcome and the
-- result said ('done {"receipt": 7}'): that is shown beside the effect, and marks
-- it doubled when another generation called too.
CREATE OR REPLACE FUNCTION daybook.report_fenced(id uuid, generation bigint, session uuid, operation text,
    said text DEFAULT NULL) RETURNS void LANGUAGE plpgsql
AS $$
DECLARE
    now_at bigint := daybook.clock();
    effect text := substring(operation FROM '^effect_(?:begin|finish):(.*)$');
    job    record;
BEGIN
    PERFORM daybook.check_named(id, generation, session);
    IF effect IS NULL THEN
        PERFORM daybook.check_name('operation', operation);
    ELSE
        PERFORM daybook.check_effect(effect);
    END IF;
    SELECT v.generation, v.session, j.seq INTO job FROM daybook.jobs v JOIN daybook.job j ON j.id = v.id
        WHERE v.id = report_fenced.id;
    IF job.session = report_fenced.session AND job.generation = report_fenced.generation THEN
        RAISE EXCEPTION 'job % is owned by that session at generation %: it isn''t fenced', id, generation
            USING ERRCODE = 'OB003';
    ELSIF job.generation < report_fenced.generation THEN
        INSERT INTO daybook.setting (name, value) VALUES ('book_behind', daybook.stamp(now_at) || ' job ' || id
            || ' generation ' || generation || ' above ' || job.generation) ON CONFLICT DO NOTHING;
    END IF;
    INSERT INTO daybook.refusal (seq, generation, session, operation, at, said)
        SELECT job.seq, report_fenced.generation, report_fenced.session, report_fenced.operation, now_at,
            nullif((daybook.bounded(report_fenced.said, 4096)).said, '') -- ProgressMax
        WHERE job.seq IS NOT NULL ON CONFLICT DO NOTHING;
    IF starts_with(operation, 'effect_finish:') AND split_part(said, ' ', 1) = 'done' THEN
        PERFORM daybook.weigh_evidence(id, effect, generation, now_at);
    END IF;
END $$;
