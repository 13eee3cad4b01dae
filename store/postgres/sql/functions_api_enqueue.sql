-- enqueue for any language.

-- Holds a request to its limits, in the order in which Request.check of the
-- domain does, and turns its times into microseconds: NULL is the default.
CREATE OR REPLACE FUNCTION daybook.check_request(queue text, kind text, args text, key text, id uuid,
    run_at timestamptz, run_in interval, expires_at timestamptz, priority int, max_failures int, on_lost text,
    timeout interval,
    OUT due bigint, OUT delay bigint, OUT expiry bigint, OUT run_limit bigint) LANGUAGE plpgsql STABLE
AS $$
DECLARE
    args_max CONSTANT int := 1048576;
    day      CONSTANT bigint := 86400000000;
BEGIN
    PERFORM daybook.check_name('queue', queue);
    PERFORM daybook.check_name('kind', kind);
    PERFORM daybook.check_text('key', key, 255);
    IF octet_length(args) > args_max THEN
        RAISE EXCEPTION 'args: at most % bytes, got %', args_max, octet_length(args) USING ERRCODE = 'OB004';
    ELSIF priority NOT BETWEEN -32768 AND 32767 THEN
        RAISE EXCEPTION 'priority: wants -32768…32767, got %', priority USING ERRCODE = 'OB004';
    ELSIF max_failures NOT BETWEEN 0 AND 10000 THEN
        RAISE EXCEPTION 'max_failures: wants 1…10000, got %', max_failures USING ERRCODE = 'OB004';
    ELSIF on_lost NOT IN ('', 'retry', 'set_aside') THEN
        RAISE EXCEPTION 'on_lost: wants retry or set_aside, got %', daybook.shown(on_lost) USING ERRCODE = 'OB004';
    ELSIF id = '00000000-0000-0000-0000-000000000000' THEN
        RAISE EXCEPTION 'id: wants a UUID that isn''t zero; leave it out to have one made' USING ERRCODE = 'OB004';
    ELSIF run_at IS NOT NULL AND run_in <> interval '0' THEN
        RAISE EXCEPTION 'run_at: give a time or a delay, not both' USING ERRCODE = 'OB004';
    END IF;
    delay := daybook.delay_of('run_in', run_in);
    run_limit := daybook.length_of('timeout', nullif(timeout, interval '0'), 1000, 365 * day,
        '1 millisecond to 365 days');
    due := daybook.time_of('run_at', run_at);
    expiry := daybook.time_of('expires_at', expires_at);
    IF expiry <= due THEN
        RAISE EXCEPTION 'expires_at: is not after run_at, so the job could never run' USING ERRCODE = 'OB004';
    END IF;
    run_limit := nullif(run_limit, day);
END $$;

-- Holds a trace context to the standard, like CheckTrace of the domain, and answers
-- what to keep of it.
CREATE OR REPLACE FUNCTION daybook.check_trace(traceparent text, tracestate text) RETURNS text
LANGUAGE plpgsql IMMUTABLE
AS $$
DECLARE
    parent  text := nullif(traceparent, '');
    state   text := nullif(tracestate, '');
    kept    text;
    keys    text[] := '{}';
    member  text;
BEGIN
    IF parent IS NULL AND state IS NOT NULL THEN
        RAISE EXCEPTION 'tracestate: wants a traceparent beside it' USING ERRCODE = 'OB004';
    ELSIF parent IS NULL THEN
        RETURN NULL;
    ELSIF octet_length(parent) > 512 OR parent !~ '^[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}(-.*)?$'
        OR left(parent, 2) = 'ff' OR left(parent, 2) = '00' AND length(parent) > 55
        OR substr(parent, 4, 32) = repeat('0', 32) OR substr(parent, 37, 16) = repeat('0', 16) THEN
        RAISE EXCEPTION 'traceparent: wants 00-TRACE-SPAN-FLAGS in lower case hexadecimal (W3C Trace Context), got %',
            daybook.shown(parent) USING ERRCODE = 'OB004';
    ELSIF octet_length(state) > 512 THEN
        RAISE EXCEPTION 'tracestate: at most 512 bytes, got %', octet_length(state) USING ERRCODE = 'OB004';
    ELSIF left(parent, 2) <> '00' THEN -- sampled is all that is known of a later version's flags
        parent := '00' || substr(parent, 3, 50)
            || CASE WHEN substr(parent, 55, 1) ~ '[13579bdf]' THEN '-01' ELSE '-00' END;
    END IF;
    FOREACH member IN ARRAY string_to_array(coalesce(state, ''), ',') LOOP
        member := btrim(member, E' \t');
        CONTINUE WHEN member = '';
        IF member !~ ('^([a-z][-a-z0-9_*/]{0,255}|[a-z0-9][-a-z0-9_*/]{0,240}@[a-z][-a-z0-9_*/]{0,13})='
                || '[ -+.-<>-~-]+$')
            OR length(split_part(member, '=', 2)) > 256
            OR split_part(member, '=', 1) = ANY (keys) OR cardinality(keys) = 32 THEN
            RAISE EXCEPTION 'tracestate: wants key=value pairs with commas between (W3C Trace Context), got %',
                daybook.shown(state) USING ERRCODE = 'OB004';
        END IF;
        keys := keys || split_part(member, '=', 1);
        kept := concat_ws(',', kept, member);
    END LOOP;
    RETURN concat_ws(' ', parent, kept);
END $$;

-- Binds a request key to a job: NULL when it does, else the job that the key
-- belongs to already. It waits for a rival that has the same key under way, and
-- reads in a later statement, which sees what that one committed.
CREATE OR REPLACE FUNCTION daybook.bind_key(p_key text, p_job uuid, p_fingerprint bytea, now_at bigint) RETURNS uuid
LANGUAGE plpgsql SET enable_seqscan = off
AS $$
DECLARE
    known daybook.request;
BEGIN
    LOOP
        INSERT INTO daybook.request (key, job, fingerprint, created_at) VALUES (p_key, p_job, p_fingerprint, now_at)
            ON CONFLICT DO NOTHING;
        IF FOUND THEN
            RETURN NULL;
        END IF;
        SELECT r.* INTO known FROM daybook.request r WHERE r.key = p_key;
        EXIT WHEN FOUND; -- else it went meanwhile, and is free
    END LOOP;
    IF known.fingerprint <> p_fingerprint THEN
        RAISE EXCEPTION 'key: % belongs to job % with other queue, kind or args; nothing was stored',
            daybook.shown(p_key), known.job USING ERRCODE = 'OB002';
    END IF;
    UPDATE daybook.request r SET replays = r.replays + 1, last_replay_at = now_at WHERE r.key = p_key;
    RETURN known.job;
END $$;

-- Whether the book has the job of a chosen id already. Another request's is
-- refused.
CREATE OR REPLACE FUNCTION daybook.has_job(p_id uuid, p_key text, p_fingerprint bytea) RETURNS boolean LANGUAGE plpgsql
AS $$
DECLARE
    known record;
BEGIN
    SELECT k.* INTO known FROM daybook.known_jobs(ARRAY[p_id]) k;
    IF NOT FOUND THEN
        RETURN false;
    ELSIF p_key IS NOT NULL AND p_key IS DISTINCT FROM known.key THEN
        RAISE EXCEPTION 'id: job % exists with another request key; nothing was stored', p_id
            USING ERRCODE = 'OB002';
    ELSIF daybook.fingerprint(known.queue, known.kind, known.args::json) <> p_fingerprint THEN
        RAISE EXCEPTION 'id: job % exists with other queue, kind or args; nothing was stored', p_id
            USING ERRCODE = 'OB002';
    END IF;
    RETURN true;
END $$;

-- Takes one request: see enqueue.
CREATE OR REPLACE FUNCTION daybook.accept_job(p_queue text, p_kind text, p_args json, p_key text, p_id uuid,
    p_run_at timestamptz, p_run_in interval, p_expires_at timestamptz, p_priority int, p_max_failures int,
    p_on_lost text, p_timeout interval, p_traceparent text, p_tracestate text,
    OUT job uuid, OUT replayed boolean) LANGUAGE plpgsql
AS $$
DECLARE
    doc         json := coalesce(p_args, '{}');
    args        text := doc::text;
    key         text := nullif(p_key, '');
    now_at      bigint := daybook.clock();
    fresh       uuid := coalesce(p_id, daybook.new_id());
    fingerprint bytea;
    trace       text;
    r           record;
BEGIN
    r := daybook.check_request(p_queue, p_kind, args, key, p_id, p_run_at, p_run_in, p_expires_at, p_priority,
        p_max_failures, p_on_lost, p_timeout);
    trace := daybook.check_trace(p_traceparent, p_tracestate);
    IF key IS NOT NULL OR p_id IS NOT NULL THEN
        fingerprint := daybook.fingerprint(p_queue, p_kind, doc);
    ELSE
        PERFORM daybook.canonical('args', doc);
    END IF;
    replayed := true;
    IF key IS NOT NULL THEN
        job := daybook.bind_key(key, fresh, fingerprint, now_at);
        IF job IS NOT NULL THEN
            RETURN;
        END IF;
    END IF;
    job := fresh;
    FOR try IN 1..3 LOOP
        IF p_id IS NOT NULL AND daybook.has_job(p_id, key, fingerprint) THEN
            RETURN;
        END IF;
        replayed := NOT daybook.insert_job(now_at, p_queue, fresh, p_kind, args, ~coalesce(p_priority, 0), r.due,
            r.delay, r.expiry, nullif(nullif(p_max_failures, 0), 20), nullif(p_on_lost = 'set_aside', false),
            r.run_limit, key, trace, p_id IS NOT NULL);
        EXIT WHEN NOT replayed;
    END LOOP;
    IF replayed THEN -- a snapshot that can't see the rival's job
        RAISE EXCEPTION 'id: job % is being enqueued by somebody else; try again', p_id USING ERRCODE = '40001';
    END IF;
END $$;

-- Inserts one job. False says that a rival committed the same id first, which
-- only a chosen id can meet.
CREATE OR REPLACE FUNCTION daybook.insert_job(now_at bigint, queue text, id uuid, kind text, args text, rank int,
    due bigint, delay bigint, expiry bigint, max_failures int, aside boolean, run_limit bigint, key text,
    trace text, chosen boolean) RETURNS boolean LANGUAGE plpgsql
AS $$
BEGIN
    IF NOT chosen THEN
        PERFORM daybook.insert_jobs(now_at, ARRAY[queue], NULL, ARRAY[id], ARRAY[kind], ARRAY[args], ARRAY[rank],
            ARRAY[due], ARRAY[delay], ARRAY[expiry], ARRAY[max_failures], ARRAY[aside], ARRAY[run_limit], ARRAY[key],
            ARRAY[trace]);
        RETURN true;
    END IF;
    BEGIN
        RETURN daybook.insert_job(now_at, queue, id, kind, args, rank, due, delay, expiry, max_failures, aside,
            run_limit, key, trace, false);
    EXCEPTION WHEN unique_violation THEN
        RETURN false;
    END;
END $$;

-- Accepts one job, inside the caller's own transaction: it is there when that
-- commits, and never when that rolls back. The same key, or the same chosen id,
-- with the same queue, kind and args again is the same job, marked as replayed;
-- with others it is OB002 and nothing is stored.
--
-- run_at is not before, run_in not before now plus this, expires_at never
-- started after this; the highest priority goes first; timeout is the run limit
-- of one attempt; traceparent and tracestate say to which trace the job belongs (W3C
-- Trace Context). NULL is the default of each. No bell rings: workers find the
-- job by their poll.
CREATE OR REPLACE FUNCTION daybook.enqueue(queue text, kind text, args json, key text DEFAULT NULL,
    id uuid DEFAULT NULL, run_at timestamptz DEFAULT NULL, run_in interval DEFAULT NULL,
    expires_at timestamptz DEFAULT NULL, priority int DEFAULT 0, max_failures int DEFAULT NULL,
    on_lost text DEFAULT NULL, timeout interval DEFAULT NULL, traceparent text DEFAULT NULL,
    tracestate text DEFAULT NULL)
    RETURNS TABLE (id uuid, replayed boolean) LANGUAGE sql
AS $$ SELECT a.job, a.replayed FROM daybook.accept_job($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12,
    $13, $14) a $$;
