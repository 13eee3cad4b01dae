-- How often the book may have lost commits. A failover to a standby that lacked
-- some, and a restore to a point in time, begin a new timeline, which the name
-- of the current WAL file tells; a book that was dumped and loaded elsewhere has
-- another cluster under it. Either lifts the incarnation once, in the
-- transaction that notices, and so every later generation.
CREATE OR REPLACE FUNCTION daybook.current_incarnation() RETURNS bigint LANGUAGE plpgsql
AS $$
DECLARE
    known text;
    here  text;
BEGIN
    SELECT s.value INTO known FROM daybook.setting s WHERE s.name = 'timeline';
    IF known IS NOT NULL THEN
        here := substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8);
        IF here <> known THEN
            PERFORM daybook.lift_incarnation('timeline', known, here);
        END IF;
    END IF;
    RETURN coalesce((SELECT s.value::bigint FROM daybook.setting s WHERE s.name = 'incarnation'), 0);
END $$;

-- Notes that the book stands on another timeline or cluster than before. Who
-- comes second finds it noted.
CREATE OR REPLACE FUNCTION daybook.lift_incarnation(what text, was text, here text) RETURNS void LANGUAGE plpgsql
AS $$
DECLARE
    next bigint;
BEGIN
    UPDATE daybook.setting s SET value = here WHERE s.name = what AND s.value = was;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    INSERT INTO daybook.setting AS s (name, value) VALUES ('incarnation', '1')
        ON CONFLICT (name) DO UPDATE SET value = (s.value::bigint + 1)::text
        RETURNING s.value::bigint INTO next;
    INSERT INTO daybook.setting AS s (name, value) VALUES ('restored', json_build_object(
            'at', to_char(to_timestamp(daybook.clock() / 1000000.0) AT TIME ZONE 'UTC',
                'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'),
            'actor', 'daybook', 'incarnation', next, 'reason', 'the database''s ' || what || ' changed from ' || was ||
                ' to '
                || here || ': commits may be lost')::text)
        ON CONFLICT (name) DO UPDATE SET value = excluded.value;
END $$;

-- Looks at the cluster as well, which costs more, so not with every claim. The
-- first look only remembers. A server that hides either is told by hand:
-- daybook schema restored.
CREATE OR REPLACE FUNCTION daybook.note_origin() RETURNS bigint LANGUAGE plpgsql
AS $$
DECLARE
    here  text;
    known text;
BEGIN
    BEGIN
        here := (SELECT system_identifier::text FROM pg_control_system());
        INSERT INTO daybook.setting (name, value) VALUES ('cluster', here) ON CONFLICT DO NOTHING;
        SELECT s.value INTO known FROM daybook.setting s WHERE s.name = 'cluster';
        IF known <> here THEN
            UPDATE daybook.setting s SET value = substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8) WHERE s.name =
                'timeline';
            PERFORM daybook.lift_incarnation('cluster', known, here);
        END IF;
        INSERT INTO daybook.setting (name, value)
            VALUES ('timeline', substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8)) ON CONFLICT DO NOTHING;
    EXCEPTION WHEN insufficient_privilege OR undefined_function OR feature_not_supported OR
        object_not_in_prerequisite_state THEN
        NULL;
    END;
    RETURN daybook.current_incarnation();
END $$;
