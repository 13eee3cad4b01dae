-- The ledger of effects, for any language: effect_begin before an outside call,
-- effect_finish behind it, each in a transaction of its own that is committed
-- before the call is made. The rules are those of the Go library, word for word
-- (ledger.go). Who was replaced is refused (OB001): roll back, and keep what you
-- wanted to say with report_fenced ('effect_finish:NAME', 'done RESULT').

-- The key that the destination of an effect can enforce: the same over all
-- attempts of a job, another for each name and round.
CREATE OR REPLACE FUNCTION daybook.effect_key(job uuid, name text, round int) RETURNS text LANGUAGE sql IMMUTABLE
AS $$ SELECT encode(substring(sha256(uuid_send($1) || convert_to($2, 'UTF8') || '\x00'::bytea
    || convert_to($3::text, 'UTF8')) FROM 1 FOR 16), 'hex') $$;

-- How little a policy trusts its destination: a later attempt may trust it less,
-- never more. NULL is no policy.
CREATE OR REPLACE FUNCTION daybook.strictness(policy text) RETURNS int LANGUAGE sql IMMUTABLE
AS $$ SELECT array_position(ARRAY['repeatable', 'keyed', 'checked', 'ask'], $1) $$;

-- Holds a handler to names of effects that aren't the book's own.
CREATE OR REPLACE FUNCTION daybook.check_effect(name text) RETURNS void LANGUAGE plpgsql IMMUTABLE
AS $$
BEGIN
    PERFORM daybook.check_name('effect', name);
    IF name = 'handler' THEN
        RAISE EXCEPTION 'effect: handler is the book''s own name for a handler without a ledger; choose another'
            USING ERRCODE = 'OB004';
    END IF;
END $$;

-- What a begin declares, within its limits: window, quiet and call limit in
-- microseconds, 0 for none.
CREATE OR REPLACE FUNCTION daybook.check_begin(p_name text, p_policy text, p_win interval, p_quiet interval,
    p_limit interval, p_fingerprint text, OUT win bigint, OUT quiet bigint, OUT call_limit bigint)
    LANGUAGE plpgsql STABLE
AS $$
DECLARE
    most CONSTANT bigint := 315360000000000; -- WindowMax
BEGIN
    PERFORM daybook.check_effect(p_name);
    IF daybook.strictness(p_policy) IS NULL THEN
        RAISE EXCEPTION 'policy: wants keyed, checked, repeatable or ask, got %; there is no default',
            daybook.shown(coalesce(p_policy, '')) USING ERRCODE = 'OB004';
    END IF;
    win := coalesce(daybook.length_of('win', p_win, 0, most, '0 seconds to 3650 days'), 0);
    quiet := coalesce(daybook.length_of('quiet', p_quiet, 0, most, '0 seconds to 3650 days'), 0);
    call_limit := coalesce(daybook.length_of('call_limit', p_limit, 0, 86400000000, '0 seconds to 24 hours'), 0);
    IF p_policy = 'keyed' AND win = 0 THEN
        RAISE EXCEPTION 'win: is missing; a keyed effect says how long its destination knows a key'
            USING ERRCODE = 'OB004';
    ELSIF p_policy <> 'keyed' AND win > 0 THEN
        RAISE EXCEPTION 'win: belongs to keyed effects only' USING ERRCODE = 'OB004';
    ELSIF p_policy <> 'checked' AND quiet > 0 THEN
        RAISE EXCEPTION 'quiet: belongs to checked effects only' USING ERRCODE = 'OB004';
    ELSIF p_policy = 'keyed' AND call_limit > win THEN
        RAISE EXCEPTION 'call_limit: may take %, longer than the % for which the destination knows the key', p_limit,
            p_win USING ERRCODE = 'OB004';
    END IF;
    PERFORM daybook.check_text('fingerprint', p_fingerprint, 255); -- KeyMax
END $$;

-- Decides about a begin: see effect_begin. Lengths are microseconds, 0 for none.
CREATE OR REPLACE FUNCTION daybook.begin_effect(p_id uuid, p_generation bigint, p_session uuid, p_name text,
    p_policy text, p_win bigint, p_quiet bigint, p_limit bigint, p_input text, p_next boolean, p_call uuid,
    OUT decision text, OUT key text, OUT result text, OUT wait_until bigint, OUT call_until bigint)
    LANGUAGE plpgsql SET enable_seqscan = off
AS $$
DECLARE
    c        record := daybook.lock_claim(p_id, p_generation, p_session);
    job      daybook.job := c.job;
    own      daybook.owned := c.own;
    now_at   bigint := daybook.clock();
    lease    bigint := (SELECT s.expires_at FROM daybook.session s WHERE s.n = own.session);
    repeated boolean := false;
    settled  bigint;
    contradicted boolean := false; -- by the destination itself
    other    boolean;
    e        daybook.effect;
BEGIN
    SELECT x.* INTO e FROM daybook.effect x WHERE x.seq = job.seq AND x.name = p_name;
    key := e.key;
    IF own IS NULL THEN
        IF NOT daybook.ended_by_begin(p_id, p_generation, p_session, p_name, e, p_call) THEN
            PERFORM daybook.not_owner(p_id, p_generation, p_session, 0);
        END IF;
        decision := 'ask';
        RETURN;
    ELSIF e.name IS NULL THEN
        IF (SELECT count(*) FROM daybook.effect x WHERE x.seq = job.seq) >= 1000 THEN -- EffectsMax
            RAISE EXCEPTION 'job % has 1000 effects, the most there may be', p_id USING ERRCODE = 'OB003';
        END IF;
        e.seq := job.seq;
        e.name := p_name;
        e.state := 'absent';
        e.round := -1;
        e.doubled := false;
    ELSIF e.used = p_generation AND NOT (e.state = 'absent' AND e.probed IS NOT DISTINCT FROM p_generation) THEN
        repeated := coalesce(e.call = p_call AND e.state <> 'absent', false);
        IF NOT repeated THEN
            RAISE EXCEPTION 'job %: effect % was begun in this attempt already; name each outside action once', p_id,
                daybook.shown(p_name) USING ERRCODE = 'OB003';
        END IF;
    END IF;
    other := coalesce(e.fingerprint <> p_input AND p_input <> '', false);
    IF other AND NOT coalesce(e.state = 'absent' AND e.settled_by IS NOT NULL AND NOT daybook.doubtful(e), false) THEN
        PERFORM daybook.change_effect(job, own, c.worker, p_name, now_at);
        decision := 'ask';
        RETURN;
    ELSIF e.state = 'done' THEN
        decision := 'done';
        result := e.result;
        IF NOT repeated THEN
            e.used := p_generation;
            e.call := p_call;
            PERFORM daybook.save_effect(own, e, 'effect replayed', now_at);
        END IF;
        RETURN;
    ELSIF daybook.strictness(p_policy) < daybook.strictness(e.policy) THEN
        RAISE EXCEPTION 'job % has effect % declared %; a later attempt may only be stricter, got %', p_id,
            daybook.shown(p_name), e.policy, p_policy USING ERRCODE = 'OB003';
    ELSIF repeated AND e.probed = p_generation THEN
        decision := 'probe';
        RETURN;
    ELSIF repeated AND e.generation = p_generation THEN
        decision := 'call';
        call_until := least(e.call_until, lease, e.begun_at + nullif(p_limit, 0), e.safe_until);
        RETURN;
    END IF;
    e.quiet := nullif(greatest(e.quiet, p_quiet), 0);
    e.policy := p_policy;
    e.fingerprint := coalesce(e.fingerprint, nullif(p_input, ''));
    IF other THEN -- what a person found absent may become another action, under a key of its own
        e.settled_by := NULL;
        e.fingerprint := p_input;
        p_next := true;
    END IF;
    e.call := p_call;
    e.used := p_generation;
    settled := e.call_until + coalesce(e.quiet, 0);
    IF daybook.doubtful(e) THEN
        e.state := 'open';
        e.ended_at := NULL;
        e.settled_by := NULL;
        contradicted := coalesce(e.probed = p_generation, false);
    END IF;
    decision := CASE WHEN e.state = 'absent' OR p_policy = 'repeatable'
            OR p_policy = 'keyed' AND now_at + p_limit <= daybook.window_end(e, p_win, now_at)
                AND now_at < daybook.window_end(e, p_win, now_at) THEN 'call'
        WHEN p_policy <> 'checked' OR contradicted THEN 'ask' WHEN now_at < settled THEN 'wait' ELSE 'probe' END;
    CASE decision
    WHEN 'call' THEN
        SELECT l.key, l.until INTO key, call_until
            FROM daybook.call_effect(p_id, own, e, lease, p_win, p_limit, p_next, now_at) l;
    WHEN 'wait' THEN
        wait_until := settled;
    WHEN 'probe' THEN
        e.probed := p_generation;
        PERFORM daybook.save_effect(own, e, 'effect probed', now_at);
    ELSE
        PERFORM daybook.save_effect(own, e, NULL, now_at);
        PERFORM daybook.ask_about(job, own, c.worker, p_name, now_at);
    END CASE;
END $$;

-- Until when the destination knows an effect's key: from the first call with it,
-- as the stricter of what was declared before and is declared now has it.
CREATE OR REPLACE FUNCTION daybook.window_end(e daybook.effect, win bigint, now_at bigint) RETURNS bigint
LANGUAGE sql STABLE
AS $$ SELECT least(least($3, (SELECT min(c.at) FROM daybook.effect_call c WHERE c.seq = ($1).seq AND c.name = ($1).name
    AND c.round = ($1).round)) + $2, ($1).safe_until) $$;

-- Gives leave to call: until then nothing can have happened, or happening again
-- is harmless.
CREATE OR REPLACE FUNCTION daybook.call_effect(p_id uuid, own daybook.owned, e daybook.effect, lease bigint,
    win bigint, call_limit bigint, next_key boolean, now_at bigint, OUT key text, OUT until bigint) LANGUAGE plpgsql
AS $$
DECLARE
    known_until bigint := daybook.window_end(e, win, now_at);
    missed      boolean;
BEGIN
    until := coalesce(now_at + nullif(call_limit, 0), lease);
    IF lease <= now_at THEN
        RAISE EXCEPTION 'job % can''t begin effect %: its session''s lease is over; renew it', p_id,
            daybook.shown(e.name) USING ERRCODE = 'OB003';
    ELSIF until > lease THEN
        RAISE EXCEPTION 'job % can''t begin effect %: it may take %, and the lease has % left; renew it', p_id,
            daybook.shown(e.name), call_limit * interval '1 microsecond', (lease - now_at) * interval '1 microsecond'
            USING ERRCODE = 'OB003';
    END IF;
    missed := e.policy = 'keyed' AND (now_at >= known_until OR call_limit > 0 AND until > known_until);
    IF e.state = 'absent' AND (e.round < 0 OR next_key AND e.settled_by IS NULL OR missed) THEN
        -- Nothing is behind the old key, and the destination may soon forget it
        -- or replay an error that it stored: a new one is as safe. What a person
        -- found absent keeps its key: should it be there after all, it is met.
        e.round := e.round + 1;
        e.key := daybook.effect_key(p_id, e.name, e.round);
        known_until := now_at + win;
    END IF;
    e.safe_until := CASE WHEN e.policy = 'keyed' THEN known_until END;
    until := least(until, e.safe_until);
    -- An elder call may still be at it, and only a probe or a person finds out
    -- how it ended.
    e.unsure := CASE WHEN e.state = 'open' THEN coalesce(e.unsure, e.generation) END;
    e.call_until := greatest(until, CASE WHEN e.state = 'open' THEN e.call_until END);
    e.state := 'open';
    e.generation := own.generation;
    e.begun_at := now_at;
    e.ended_at := NULL;
    e.settled_by := NULL;
    e.result := NULL;
    e.probed := NULL;
    key := e.key;
    INSERT INTO daybook.effect_call (seq, name, generation, round, at)
        VALUES (e.seq, e.name, e.generation, e.round, now_at) ON CONFLICT DO NOTHING;
    PERFORM daybook.save_effect(own, e, 'effect begun', now_at, ', policy ' || e.policy || ', key ' || e.key);
END $$;

-- Writes a row of the ledger, and what the timeline says of it. The claim is
-- locked; the fast completion passes its job by from here on.
CREATE OR REPLACE FUNCTION daybook.save_effect(own daybook.owned, e daybook.effect, what text, now_at bigint,
    more text DEFAULT '') RETURNS void LANGUAGE plpgsql SET enable_seqscan = off
AS $$
BEGIN
    UPDATE daybook.owned o SET ledger = true WHERE o.id = own.id;
    INSERT INTO daybook.effect SELECT e.* ON CONFLICT (seq, name) DO UPDATE SET policy = excluded.policy,
        state = excluded.state, generation = excluded.generation, round = excluded.round, key = excluded.key,
        begun_at = excluded.begun_at, ended_at = excluded.ended_at, settled_by = excluded.settled_by,
        doubled = excluded.doubled, result = excluded.result, call_until = excluded.call_until,
        safe_until = excluded.safe_until, quiet = excluded.quiet, fingerprint = excluded.fingerprint,
        call = excluded.call, used = excluded.used, probed = excluded.probed, unsure = excluded.unsure;
    IF what IS NOT NULL THEN
        INSERT INTO daybook.event (seq, at, generation, what, detail)
            VALUES (e.seq, now_at, own.generation, what, e.name || more);
    END IF;
END $$;

-- Sets the job aside: only a person can find out about the effect.
CREATE OR REPLACE FUNCTION daybook.ask_about(job daybook.job, own daybook.owned, worker text, name text, now_at bigint)
    RETURNS text LANGUAGE plpgsql
AS $$
DECLARE
    past daybook.ended := daybook.attempt_of(own, worker, 6, now_at);
BEGIN
    past.why := 'effect ' || name || ' is open';
    RETURN daybook.give_back(job, own, past, 'effect_open', NULL);
END $$;

-- Sets the job aside: what it would do now is not what it began.
CREATE OR REPLACE FUNCTION daybook.change_effect(job daybook.job, own daybook.owned, worker text, name text,
    now_at bigint) RETURNS text LANGUAGE plpgsql
AS $$
DECLARE
    past daybook.ended := daybook.attempt_of(own, worker, 2, now_at);
BEGIN
    past.error := daybook.changed_text(name);
    past.error_kind := 'effect_changed';
    job.failures := coalesce(job.failures, 0) + 1;
    RETURN daybook.give_back(job, own, past, 'effect_changed', NULL);
END $$;

CREATE OR REPLACE FUNCTION daybook.changed_text(name text) RETURNS text LANGUAGE sql IMMUTABLE
AS $$ SELECT 'effect ' || $1 || ' was begun with other input before; the handler changed between two attempts' $$;

-- Whether the owner's attempt ended by this begin, and only its answer was lost.
CREATE OR REPLACE FUNCTION daybook.ended_by_begin(p_id uuid, p_generation bigint, p_session uuid, p_name text,
    e daybook.effect, p_call uuid) RETURNS boolean LANGUAGE sql STABLE SET enable_seqscan = off
AS $$ SELECT EXISTS (SELECT FROM daybook.job j JOIN daybook.ended d ON d.seq = j.seq AND d.generation = $2
    JOIN daybook.session s ON s.n = d.session AND s.id = $3
    WHERE j.id = $1 AND (d.outcome = 6 AND ($5).used = $2 AND ($6 IS NULL OR ($5).call = $6)
        OR d.error = daybook.changed_text($4) AND $6 IS NOT NULL)) $$;

-- Records how an effect ended: see effect_finish.
CREATE OR REPLACE FUNCTION daybook.finish_effect(p_id uuid, p_generation bigint, p_session uuid, p_name text,
    p_outcome text, p_result json, OUT state text, OUT stands text, OUT doubled boolean)
    LANGUAGE plpgsql SET enable_seqscan = off
AS $$
DECLARE
    c      record;
    own    daybook.owned;
    now_at bigint := daybook.clock();
    probe  boolean;
    e      daybook.effect;
BEGIN
    PERFORM daybook.check_end(p_name, p_outcome, p_result);
    c := daybook.lock_claim(p_id, p_generation, p_session);
    own := c.own;
    SELECT x.* INTO e FROM daybook.effect x WHERE x.seq = (c.job).seq AND x.name = p_name;
    probe := coalesce(e.probed = p_generation, false);
    state := e.state;
    doubled := e.doubled;
    stands := 'running';
    IF own IS NULL THEN
        IF p_outcome <> 'unknown' OR NOT daybook.ended_by_begin(p_id, p_generation, p_session, p_name, e, NULL) THEN
            PERFORM daybook.not_owner(p_id, p_generation, p_session, 0);
        END IF;
        SELECT v.state INTO stands FROM daybook.jobs v WHERE v.id = p_id;
    ELSIF e.name IS NULL THEN
        RAISE EXCEPTION 'job % has no effect %; begin it first', p_id, daybook.shown(p_name) USING ERRCODE = 'OB003';
    ELSIF e.generation <> p_generation AND NOT probe THEN
        RAISE EXCEPTION 'job % has effect % begun by generation %, not by this attempt; begin it first', p_id,
            daybook.shown(p_name), e.generation USING ERRCODE = 'OB003';
    ELSIF e.state = p_outcome THEN
        RETURN;
    ELSIF e.state <> 'open' THEN
        RAISE EXCEPTION 'job % has effect % % already; what was said first stays', p_id, daybook.shown(p_name), e.state
            USING ERRCODE = 'OB003';
    ELSIF p_outcome = 'unknown' AND probe THEN
        stands := daybook.ask_about(c.job, own, c.worker, p_name, now_at);
    ELSIF p_outcome = 'unknown' THEN
        PERFORM daybook.save_effect(own, e, 'effect left open', now_at);
    ELSIF p_outcome = 'absent' AND NOT probe AND e.unsure IS NOT NULL THEN
        PERFORM daybook.save_effect(own, e, 'effect left open', now_at,
            ', this call didn''t happen, that of generation ' || e.unsure || ' may have');
    ELSE
        e.state := p_outcome;
        e.ended_at := now_at;
        e.result := p_result::text;
        e.doubled := e.doubled OR daybook.called_twice(e);
        state := e.state;
        doubled := e.doubled;
        PERFORM daybook.save_effect(own, e, 'effect ' || p_outcome, now_at,
            CASE WHEN probe THEN ', the destination says' ELSE '' END);
    END IF;
END $$;

CREATE OR REPLACE FUNCTION daybook.check_end(p_name text, p_outcome text, p_result json) RETURNS void
LANGUAGE plpgsql IMMUTABLE
AS $$
DECLARE
    wrong text := daybook.wrong_result(p_result);
BEGIN
    PERFORM daybook.check_effect(p_name);
    IF p_outcome IS NULL OR p_outcome NOT IN ('done', 'absent', 'unknown') THEN
        RAISE EXCEPTION 'outcome: wants done, absent or unknown, got %', daybook.shown(coalesce(p_outcome, ''))
            USING ERRCODE = 'OB004';
    ELSIF p_result IS NOT NULL AND p_outcome <> 'done' THEN
        RAISE EXCEPTION 'result: belongs to the outcome done only' USING ERRCODE = 'OB004';
    ELSIF wrong IS NOT NULL THEN
        RAISE EXCEPTION '%', wrong USING ERRCODE = 'OB004';
    END IF;
END $$;

-- What fenced owners said of effects, as effect_finish would have been told it.
CREATE OR REPLACE VIEW daybook.late_evidence AS
SELECT r.seq, substr(r.operation, 15) AS name, r.generation, r.at, split_part(r.said, ' ', 1) AS outcome,
    nullif(substr(r.said, length(split_part(r.said, ' ', 1)) + 2), '') AS said
FROM daybook.refusal r WHERE r.operation LIKE 'effect\_finish:%';

-- Whether the effect is recorded absent and somebody's call, who said so too late,
-- happened all the same; a person who settled it before could not know.
CREATE OR REPLACE FUNCTION daybook.doubtful(e daybook.effect) RETURNS boolean
LANGUAGE plpgsql STABLE SET enable_seqscan = off
AS $$
BEGIN
    RETURN e.state = 'absent' AND EXISTS (SELECT FROM daybook.late_evidence v JOIN daybook.effect_call c
            ON c.seq = v.seq AND c.name = v.name AND c.generation = v.generation
        WHERE v.seq = e.seq AND v.name = e.name AND v.outcome = 'done'
            AND (e.settled_by IS NULL OR v.at > e.ended_at));
END $$;

-- Whether the effect must be taken to have happened twice: by the call that
-- counts, where it is done, and by each of another generation that said so too
-- late; not where it is repeatable, nor by calls with one key that the
-- destination still enforced.
CREATE OR REPLACE FUNCTION daybook.called_twice(e daybook.effect) RETURNS boolean
LANGUAGE plpgsql STABLE SET enable_seqscan = off
AS $$
DECLARE
    happened bigint := CASE WHEN e.state = 'done' THEN e.generation END;
    in_round int := e.round;
    l        record;
BEGIN
    IF e.policy = 'repeatable' THEN
        RETURN false;
    END IF;
    FOR l IN SELECT v.at, c.generation, c.round FROM daybook.late_evidence v JOIN daybook.effect_call c
            ON c.seq = v.seq AND c.name = v.name AND c.generation = v.generation
        WHERE v.seq = e.seq AND v.name = e.name AND v.outcome = 'done' ORDER BY v.at, v.generation, c.round
    LOOP
        IF happened IS NULL THEN
            happened := l.generation;
            in_round := l.round;
        ELSIF l.generation <> happened
                AND NOT (l.round = in_round AND l.round = e.round AND l.at <= coalesce(e.safe_until, 0)) THEN
            RETURN true;
        END IF;
    END LOOP;
    RETURN false;
END $$;

-- Marks the effect doubled when what a fenced owner said shows that it is.
CREATE OR REPLACE FUNCTION daybook.weigh_evidence(p_id uuid, p_name text, p_generation bigint, now_at bigint)
    RETURNS void LANGUAGE plpgsql SET enable_seqscan = off
AS $$
DECLARE
    e daybook.effect;
BEGIN
    PERFORM FROM daybook.job j WHERE j.id = p_id FOR UPDATE;
    SELECT x.* INTO e FROM daybook.job j JOIN daybook.effect x ON x.seq = j.seq WHERE j.id = p_id AND x.name = p_name;
    IF NOT e.doubled AND daybook.called_twice(e) THEN
        UPDATE daybook.effect x SET doubled = true WHERE x.seq = e.seq AND x.name = e.name;
        INSERT INTO daybook.event (seq, at, generation, what, detail)
            VALUES (e.seq, now_at, p_generation, 'effect doubled', e.name);
    END IF;
END $$;

-- Asks the ledger's leave to make one outside call, and records it.
--   call   call with the key until call_until, then say how it ended
--   done   it happened before: here is its result
--   probe  ask the destination whether it happened, and say what it said
--   wait   release the job until wait_until: an earlier call may still show
--   ask    the job is set aside for a person; drop it
-- The policy is declared here: keyed (with win, for how long the destination
-- knows a key), checked (with quiet, how long after a call its trace may come
-- late), repeatable or ask. call_limit is when the call is given up, inside the
-- lease; fingerprint tells the input, and another one later sets the job aside;
-- next_key asks for a new key after a recorded absent; repeating a begin by its
-- call answers the same. OB003 refuses a name used twice in one attempt, a laxer
-- policy, and a call that the lease doesn't cover.
CREATE OR REPLACE FUNCTION daybook.effect_begin(id uuid, generation bigint, session uuid, name text, policy text,
    win interval DEFAULT NULL, quiet interval DEFAULT NULL, call_limit interval DEFAULT NULL,
    fingerprint text DEFAULT NULL, next_key boolean DEFAULT false, call uuid DEFAULT NULL)
    RETURNS TABLE (decision text, key text, result json, wait_until timestamptz, call_until timestamptz) LANGUAGE sql
AS $$ SELECT b.decision, b.key, b.result::json, daybook.instant(b.wait_until), daybook.instant(b.call_until)
    FROM daybook.check_begin($4, $5, $6, $7, $8, $9) c,
        daybook.begin_effect($1, $2, $3, $4, $5, c.win, c.quiet, c.call_limit, coalesce($9, ''),
            coalesce($10, false), coalesce($11, daybook.new_id())) b $$;

-- Says how the call of an effect ended, or what the probe found: done (with its
-- result), absent (it certainly didn't happen) or unknown (a timeout is not a
-- no: it stays open). Answers the effect's state, where the job stands (set_aside
-- when a probe can't tell), and whether the effect is known to have happened
-- twice. Saying the same again changes nothing, and what was said first stays.
CREATE OR REPLACE FUNCTION daybook.effect_finish(id uuid, generation bigint, session uuid, name text, outcome text,
    result json DEFAULT NULL) RETURNS TABLE (state text, job text, doubled boolean) LANGUAGE sql
AS $$ SELECT f.state, f.stands, f.doubled FROM daybook.finish_effect($1, $2, $3, $4, $5, $6) f $$;
