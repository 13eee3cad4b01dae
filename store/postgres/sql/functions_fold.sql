-- Joins the two newest attempts of a job when both are plain releases without
-- an error, as Attempt.Fold of the domain does: ten thousand snoozes are a row.
CREATE OR REPLACE FUNCTION daybook.fold_releases(job_seq bigint) RETURNS void LANGUAGE plpgsql
AS $$
DECLARE
    newer daybook.ended;
    older daybook.ended;
BEGIN
    SELECT * INTO newer FROM daybook.ended e WHERE e.seq = job_seq ORDER BY e.generation DESC LIMIT 1;
    IF newer.seq IS NULL OR newer.outcome <> 3 OR newer.error IS NOT NULL THEN
        RETURN;
    END IF;
    SELECT * INTO older FROM daybook.ended e WHERE e.seq = job_seq AND e.generation < newer.generation
        ORDER BY e.generation DESC LIMIT 1;
    IF older.seq IS NULL OR older.outcome <> 3 OR older.error IS NOT NULL THEN
        RETURN;
    END IF;
    DELETE FROM daybook.ended e WHERE e.seq = job_seq AND e.generation IN (newer.generation, older.generation);
    newer.count := coalesce(newer.count, 1) + coalesce(older.count, 1);
    newer.first := coalesce(older.first, older.generation);
    newer.claimed_at := older.claimed_at;
    INSERT INTO daybook.ended SELECT newer.*;
END $$;
