-- The history's days. Each function is one short transaction of its own: it may
-- keep all readers of the history waiting, so it gives up soon when somebody
-- else is in the way, and is called again later.

-- Where the history is: the schema's name and the table's number.
CREATE OR REPLACE FUNCTION daybook.history_place(OUT place text, OUT parent oid) LANGUAGE sql STABLE
AS $$ SELECT n.nspname::text, t.typrelid
    FROM pg_catalog.pg_type t JOIN pg_catalog.pg_namespace n ON n.oid = t.typnamespace
    WHERE t.oid = pg_typeof(NULL::daybook.ended)::oid $$;

-- Lets one at a time change the history's partitions: whether that is this
-- transaction.
CREATE OR REPLACE FUNCTION daybook.keeps_history() RETURNS boolean LANGUAGE sql VOLATILE
AS $$ SELECT pg_try_advisory_xact_lock(20012, (parent::bigint % 2147483647)::int) FROM daybook.history_place() $$;

-- Makes the partition for the day of a time, and tells whether there is one now,
-- or NULL when somebody else is at it. A day that has rows in ended_rest already
-- stays there. Attaching a partition reads all of ended_rest, and nobody can read
-- the history meanwhile: there is none while that isn't small.
CREATE OR REPLACE FUNCTION daybook.make_day(at bigint) RETURNS boolean LANGUAGE plpgsql SET lock_timeout = '100ms'
AS $$
DECLARE
    day_from bigint := at - at % 86400000000;
    day_to   bigint := day_from + 86400000000;
    day_name text := 'ended_' || to_char(timezone('UTC', to_timestamp(day_from / 1000000)), 'YYYYMMDD');
    place    text := (daybook.history_place()).place;
    rest     bigint := (SELECT pg_relation_size(e.tableoid) FROM daybook.ended_rest e LIMIT 1);
BEGIN
    IF EXISTS (SELECT 1 FROM daybook.history_day h WHERE h.name = day_name) THEN
        RETURN true;
    END IF;
    IF NOT daybook.keeps_history() THEN
        RETURN NULL;
    END IF;
    IF rest > 256 * 1024 * 1024
        OR EXISTS (SELECT 1 FROM daybook.ended_rest e WHERE e.filed_at >= day_from AND e.filed_at < day_to) THEN
        RETURN false;
    END IF;
    INSERT INTO daybook.history_day (name, from_at, to_at) VALUES (day_name, day_from, day_to);
    EXECUTE format('CREATE TABLE %1$I.%2$I (LIKE %1$I.ended INCLUDING ALL)', place, day_name);
    EXECUTE format('ALTER TABLE %1$I.ended ATTACH PARTITION %1$I.%2$I FOR VALUES FROM (%3$s) TO (%4$s)',
        place, day_name, day_from, day_to);
    RETURN true;
EXCEPTION WHEN unique_violation THEN -- somebody else was first
    RETURN true;
WHEN check_violation THEN -- ended_rest was given a row of the day meanwhile
    RETURN false;
END $$;

-- Waits until nobody uses the history, for as long as dropping a day would. So
-- a drop isn't prepared in vain.
CREATE OR REPLACE FUNCTION daybook.await_history() RETURNS void LANGUAGE plpgsql SET lock_timeout = '100ms'
AS $$
BEGIN
    LOCK TABLE ONLY daybook.ended IN ACCESS EXCLUSIVE MODE;
END $$;

-- Drops the partition of a day. What jobs that are still there did on it is
-- filed again, as of now, first: they are found by their own table, so that the
-- cost is that of the jobs which outlived the day. Readers aren't kept waiting
-- for that, since only writers to the old day are locked out.
CREATE OR REPLACE FUNCTION daybook.drop_day(day_name text, now bigint) RETURNS bigint LANGUAGE plpgsql
    SET lock_timeout = '100ms'
AS $$
DECLARE
    place   text := (daybook.history_place()).place;
    carried bigint;
BEGIN
    IF NOT daybook.keeps_history() THEN
        RETURN 0;
    END IF;
    DELETE FROM daybook.history_day h WHERE h.name = day_name AND h.walked;
    IF NOT FOUND THEN
        RETURN 0;
    END IF;
    EXECUTE format('LOCK TABLE %I.%I IN SHARE ROW EXCLUSIVE MODE', place, day_name);
    EXECUTE format('INSERT INTO %1$I.ended (filed_at, seq, generation, session, claimed_at, outcome, through,
            ended_at, started_at, first, count, worker, why, error, error_kind, trace, cut, result)
        SELECT $1, e.seq, e.generation, e.session, e.claimed_at, e.outcome, e.through,
            coalesce(e.ended_at, e.filed_at), e.started_at, e.first, e.count, e.worker, e.why, e.error, e.error_kind,
            e.trace, e.cut, e.result
        FROM (SELECT j.seq FROM %1$I.job j
            WHERE j.seq BETWEEN (SELECT min(seq) FROM %1$I.%2$I) AND (SELECT max(seq) FROM %1$I.%2$I) OFFSET 0) j
        CROSS JOIN LATERAL (SELECT * FROM %1$I.%2$I e WHERE e.seq = j.seq OFFSET 0) e',
        place, day_name) USING now;
    GET DIAGNOSTICS carried = ROW_COUNT;
    EXECUTE format('DROP TABLE %I.%I', place, day_name);
    RETURN carried;
END $$;

-- Keeps the history's indexes by time up to date: what was filed since the last
-- call is read whole until then. What is being vacuumed is brought up to date by
-- that, and passed by.
CREATE OR REPLACE FUNCTION daybook.index_history() RETURNS void LANGUAGE plpgsql SET lock_timeout = '100ms'
AS $$
DECLARE
    part oid;
BEGIN
    IF NOT daybook.keeps_history() THEN
        RETURN;
    END IF;
    FOR part IN SELECT x.indexrelid FROM daybook.history_place() p
        JOIN pg_catalog.pg_inherits i ON i.inhparent = p.parent
        JOIN pg_catalog.pg_index x ON x.indrelid = i.inhrelid
        JOIN pg_catalog.pg_class c ON c.oid = x.indexrelid
        JOIN pg_catalog.pg_am a ON a.oid = c.relam AND a.amname = 'brin'
    LOOP
        BEGIN
            PERFORM brin_summarize_new_values(part);
        EXCEPTION WHEN lock_not_available THEN
            NULL;
        END;
    END LOOP;
END $$;

-- The first days, so that no row is filed before its day is there.
SELECT daybook.make_day(daybook.clock() + n * 86400000000) FROM generate_series(0, 3) n;
