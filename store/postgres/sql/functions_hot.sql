-- The fast path: enqueue, claim and complete, each one call for as many jobs
-- as there are. What they do is what NewJob.Enqueue, Job.Claim and Job.Complete
-- of the domain decide for every single job; storetest holds them to it.
--
-- Rows of ready are never updated, and those of owned only under their lock, so
-- "lock, then delete by ctid in a later statement" misses no row. Nothing joins
-- by anything but a nested loop into an index: each function sets its planner's
-- switches itself, so that no plan can flip as tables grow, whoever calls it.

-- The numbers of queues by name. Missing ones are made, in one order, so that
-- two callers can't deadlock, and read in a later statement: a rival's may have
-- been committed meanwhile.
CREATE OR REPLACE FUNCTION daybook.make_queues(names text[]) RETURNS int[] LANGUAGE plpgsql
AS $$
#variable_conflict use_variable
DECLARE
    numbers int[];
BEGIN
    FOR try IN 1..2 LOOP
        SELECT array_agg(q.n) INTO numbers FROM unnest(names) u(name)
            LEFT JOIN LATERAL (SELECT w.n FROM daybook.queue w WHERE w.name = u.name OFFSET 0) q ON true;
        EXIT WHEN array_position(numbers, NULL) IS NULL;
        INSERT INTO daybook.queue (name) SELECT DISTINCT u.name COLLATE "C" FROM unnest(names, numbers) u(name, n)
            WHERE u.n IS NULL ORDER BY 1 ON CONFLICT DO NOTHING;
    END LOOP;
    RETURN numbers;
END $$;

-- Accepts jobs in the order given. queues are names, and which says by number
-- (from 1) the queue of each job; no list is the first for all. A list that is
-- NULL, or an element that is, stands for the default. run_ats is not before,
-- delays not before now plus this.
CREATE OR REPLACE FUNCTION daybook.insert_jobs(now_at bigint, queues text[], which int[], ids uuid[], kinds text[],
    args text[], ranks int[], run_ats bigint[], delays bigint[], expires bigint[], max_failures int[],
    aside boolean[], timeouts bigint[], keys text[], traces text[]) RETURNS void LANGUAGE plpgsql
    SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET enable_bitmapscan = off
    SET enable_sort = off SET jit = off SET plan_cache_mode = force_generic_plan
AS $$
#variable_conflict use_variable
DECLARE
    latest CONSTANT bigint := 253402300799999999; -- TimeMax
    lanes  int[] := daybook.make_queues(queues);
BEGIN
    now_at := coalesce(now_at, daybook.clock());
    WITH j AS (
        INSERT INTO daybook.job AS j (enqueued_at, id, queue, rank, kind, args, run_at, expires_at, max_failures,
            set_aside_lost, timeout, key, trace)
        SELECT now_at, u.id, lanes[coalesce(u.which, 1)], coalesce(u.rank, -1), u.kind, u.args,
            nullif(greatest(now_at, u.run_at, least(now_at + coalesce(u.delay, 0), latest)), now_at), u.expires_at,
            u.max_failures, CASE WHEN u.aside THEN true END, u.timeout, u.key, u.trace
        FROM unnest(ids, which, kinds, args, ranks, run_ats, delays, expires, max_failures, aside, timeouts, keys,
            traces)
            u(id, which, kind, args, rank, run_at, delay, expires_at, max_failures, aside, timeout, key, trace)
        RETURNING j.seq, j.queue, j.rank, coalesce(j.run_at, j.enqueued_at) AS run_at, j.kind, j.expires_at),
    r AS (INSERT INTO daybook.ready (run_at, seq, lane, rank, kind, expires_at)
        SELECT j.run_at, j.seq, j.queue, j.rank, j.kind, j.expires_at FROM j)
    INSERT INTO daybook.outbox (at, queue, ring, waiting, accepted)
        SELECT now_at, j.queue, bool_or(j.run_at <= now_at), count(*), count(*) FROM j GROUP BY j.queue;
END $$;

-- What insert_jobs does, for one job, at two thirds of the cost.
CREATE OR REPLACE FUNCTION daybook.insert_one(now_at bigint, queue text, id uuid, kind text, args text, rank int,
    run_at bigint, delay bigint, expires_at bigint, max_failures int, aside boolean, timeout bigint, key text,
    trace text) RETURNS void LANGUAGE plpgsql
    SET enable_seqscan = off SET enable_bitmapscan = off SET plan_cache_mode = force_generic_plan
AS $$
#variable_conflict use_variable
DECLARE
    latest CONSTANT bigint := 253402300799999999; -- TimeMax
BEGIN
    now_at := coalesce(now_at, daybook.clock());
    run_at := greatest(now_at, run_at, least(now_at + coalesce(delay, 0), latest));
    FOR try IN 1..2 LOOP
        WITH j AS (
            INSERT INTO daybook.job AS j (enqueued_at, id, queue, rank, kind, args, run_at, expires_at, max_failures,
                set_aside_lost, timeout, key, trace)
            SELECT now_at, id, q.n, coalesce(rank, -1), kind, args, nullif(run_at, now_at), expires_at, max_failures,
                CASE WHEN aside THEN true END, timeout, key, trace FROM daybook.queue q WHERE q.name = queue
            RETURNING j.seq, j.queue),
        r AS (INSERT INTO daybook.ready (run_at, seq, lane, rank, kind, expires_at)
            SELECT run_at, j.seq, j.queue, coalesce(rank, -1), kind, expires_at FROM j)
        INSERT INTO daybook.outbox (at, queue, ring, waiting, accepted)
            SELECT now_at, j.queue, run_at = now_at, 1, 1 FROM j;
        EXIT WHEN FOUND;
        PERFORM daybook.make_queues(ARRAY[queue]);
    END LOOP;
END $$;

-- Takes up to most eligible jobs out of one lane: by rank, then by when they
-- became eligible, then by arrival; oldest leaves ranks out of it. suspects says
-- that the session may have a suspect, held that it is locked already.
--
-- It steps from rank to rank by loose probes of the index, and never walks over
-- rows that aren't due. Marks say from where on to look in ranks that are known
-- (ascending); other ranks are looked for between them, if gaps says so.
CREATE OR REPLACE FUNCTION daybook.take_ready(session uuid, checks boolean, lane int, most int, oldest boolean,
    now_at bigint, kinds text[], mark_ranks int[], mark_run_ats bigint[], mark_seqs bigint[], gaps boolean,
    INOUT held boolean, INOUT suspects boolean,
    OUT seqs bigint[], OUT ledgers bigint[], OUT suspect bigint, OUT gap_time interval) LANGUAGE plpgsql
AS $$
#variable_conflict use_variable
DECLARE
    past   CONSTANT int := 32768;
    mark   int := 1;
    known  int;          -- the rank of the mark, or past
    rank   int := -32769;
    probed int;
    run_at bigint;       -- where to begin in the rank
    seq    bigint;
    begun  timestamptz;
    found  record;
    places tid[] := '{}';
    dues   bigint[] := '{}';
    crashy boolean[] := '{}';
BEGIN
    seqs := '{}';
    ledgers := '{}';
    gap_time := '0';
    IF NOT gaps AND cardinality(mark_ranks) = 1 THEN
        oldest := false; -- in one rank age is the order anyway
    END IF;
    LOOP
        known := coalesce(mark_ranks[mark], past);
        run_at := NULL;
        IF gaps AND rank < known - 1 THEN
            begun := clock_timestamp();
            SELECT r.rank, r.run_at, r.seq INTO probed, run_at, seq FROM daybook.ready r
                WHERE r.lane = lane AND r.rank > rank AND r.rank < known ORDER BY r.rank, r.run_at, r.seq LIMIT 1;
            gap_time := gap_time + (clock_timestamp() - begun);
        END IF;
        IF run_at IS NOT NULL THEN
            rank := probed;
        ELSE
            EXIT WHEN known = past;
            rank := known;
            run_at := mark_run_ats[mark];
            seq := mark_seqs[mark];
            mark := mark + 1;
        END IF;
        CONTINUE WHEN run_at > now_at;
        IF NOT held THEN
            CONTINUE WHEN NOT EXISTS (SELECT 1 FROM daybook.ready r
                    WHERE r.lane = lane AND r.rank = rank AND (r.run_at, r.seq) >= (run_at, seq)
                        AND r.run_at <= now_at AND (r.expires_at IS NULL OR r.expires_at > now_at) AND NOT r.suspect
                        AND (kinds IS NULL OR r.kind = ANY (kinds)))
                AND NOT (suspects AND EXISTS (SELECT 1 FROM daybook.ready r
                    WHERE r.lane = lane AND r.rank = rank AND r.run_at <= now_at AND r.suspect));
            suspects := daybook.hold_session(session, checks, suspects, now_at);
            held := true;
        END IF;
        IF NOT (oldest OR suspects) THEN
            WITH d AS (DELETE FROM daybook.ready r WHERE r.ctid = ANY (ARRAY(
                    SELECT r.ctid FROM daybook.ready r
                    WHERE r.lane = lane AND r.rank = rank AND (r.run_at, r.seq) >= (run_at, seq) AND r.run_at <= now_at
                        AND (r.expires_at IS NULL OR r.expires_at > now_at) AND NOT r.suspect
                        AND (kinds IS NULL OR r.kind = ANY (kinds))
                    ORDER BY r.run_at, r.seq LIMIT most - cardinality(seqs) FOR UPDATE SKIP LOCKED))
                RETURNING r.seq, r.ledger)
            SELECT array_agg(d.seq) AS seqs, array_agg(d.seq) FILTER (WHERE d.ledger) AS ledgers, NULL::tid[] AS places
                INTO found FROM d;
        ELSE
            SELECT array_agg(f.place) AS places, array_agg(f.seq) AS seqs,
                array_agg(f.seq) FILTER (WHERE f.ledger) AS ledgers, array_agg(f.run_at) AS dues,
                array_agg(f.suspect) AS crashy, max(f.seq) FILTER (WHERE f.suspect) AS suspect
                INTO found FROM daybook.ready_in_rank(lane, rank, run_at, seq, now_at, kinds,
                    CASE WHEN oldest THEN most ELSE most - cardinality(seqs) END, suspects) f;
            dues := dues || found.dues;
            crashy := crashy || found.crashy;
            IF found.suspect IS NOT NULL AND NOT oldest THEN
                suspect := found.suspect;
                suspects := false;
            END IF;
        END IF;
        CONTINUE WHEN found.seqs IS NULL;
        places := places || found.places;
        seqs := seqs || found.seqs;
        ledgers := ledgers || found.ledgers;
        EXIT WHEN cardinality(seqs) >= most AND NOT oldest;
    END LOOP;
    IF oldest AND seqs <> '{}' THEN
        SELECT array_agg(f.place), array_agg(f.seq), max(f.seq) FILTER (WHERE f.suspect) INTO places, seqs, suspect
        FROM (SELECT * FROM (SELECT u.*, row_number() OVER (PARTITION BY u.suspect ORDER BY u.run_at, u.seq) AS nth
                FROM unnest(places, seqs, dues, crashy) u(place, seq, run_at, suspect)) u
            WHERE u.nth = 1 OR NOT u.suspect ORDER BY u.run_at, u.seq LIMIT most) f;
        suspects := suspects AND suspect IS NULL;
    END IF;
    IF places <> '{}' THEN
        DELETE FROM daybook.ready r WHERE r.ctid = ANY (places);
    END IF;
END $$;

-- Takes up to share eligible jobs of each of many lanes, and most of all, as one
-- set, where that is what take_ready would take: out of the lane's first rank, and
-- by age only where there is no other. gave and counts are the lanes that gave
-- something, by their places in the list, and how much; dry those that have nothing
-- else for now. A lane that is NULL is left out.
CREATE OR REPLACE FUNCTION daybook.take_shares(session uuid, checks boolean, lanes int[], share int, most int,
    oldest boolean, now_at bigint, kinds text[], INOUT held boolean,
    OUT seqs bigint[], OUT ledgers bigint[], OUT gave int[], OUT counts int[], OUT dry int[]) LANGUAGE plpgsql
AS $$
#variable_conflict use_variable
DECLARE
    firsts int[]; -- places of lanes whose first rank has something due
    ranks  int[]; -- these ranks
    single int[]; -- places of lanes with one rank, or none
BEGIN
    SELECT array_agg(u.place) FILTER (WHERE u.takes), array_agg(u.rank) FILTER (WHERE u.takes),
        array_agg(u.place) FILTER (WHERE u.lane IS NOT NULL AND u.others IS NOT TRUE)
        INTO firsts, ranks, single
        FROM (SELECT u.place, u.lane, t.rank, t.others, t.run_at <= now_at AND NOT (oldest AND t.others) AS takes
            FROM unnest(lanes) WITH ORDINALITY u(lane, place)
            LEFT JOIN LATERAL (SELECT f.rank, f.run_at, EXISTS (SELECT FROM daybook.ready r
                    WHERE r.lane = u.lane AND r.rank > f.rank) AS others
                FROM (SELECT r.rank, r.run_at FROM daybook.ready r WHERE r.lane = u.lane
                    ORDER BY r.rank, r.run_at, r.seq LIMIT 1) f) t ON true) u;
    IF firsts IS NOT NULL AND NOT held THEN
        PERFORM daybook.hold_session(session, checks, false, now_at);
        held := true;
    END IF;
    WITH d AS (DELETE FROM daybook.ready r WHERE r.ctid = ANY (ARRAY(
            SELECT x.at FROM unnest(firsts, ranks) u(place, rank)
            CROSS JOIN LATERAL (SELECT r.ctid AS at FROM daybook.ready r
                WHERE r.lane = lanes[u.place] AND r.rank = u.rank AND r.run_at <= now_at
                    AND (r.expires_at IS NULL OR r.expires_at > now_at) AND NOT r.suspect
                    AND (kinds IS NULL OR r.kind = ANY (kinds))
                ORDER BY r.run_at, r.seq LIMIT share FOR UPDATE SKIP LOCKED) x LIMIT most))
        RETURNING r.lane, r.seq, r.ledger),
    n AS (SELECT array_position(lanes, d.lane) AS place, count(*)::int AS count FROM d GROUP BY d.lane)
    SELECT (SELECT array_agg(d.seq) FROM d), (SELECT array_agg(d.seq) FILTER (WHERE d.ledger) FROM d),
        array_agg(n.place), array_agg(n.count) INTO seqs, ledgers, gave, counts FROM n;
    dry := ARRAY(SELECT u.place FROM unnest(single) u(place) LEFT JOIN unnest(gave, counts) g(place, count)
        ON g.place = u.place WHERE coalesce(g.count, 0) < share AND (coalesce(cardinality(seqs), 0) < most
            OR u.place < (SELECT max(g.place) FROM unnest(gave) g(place)))); -- it came to no others
END $$;

-- Locks a session so that it can't end under a claim, which by then knows that
-- there is something to claim: a poll that finds nothing has nothing to write.
-- For a suspect the session's other claims have to end first. It tells whether
-- the session may have one.
CREATE OR REPLACE FUNCTION daybook.hold_session(session uuid, checks boolean, suspects boolean, now_at bigint)
    RETURNS boolean LANGUAGE plpgsql
AS $$
#variable_conflict use_variable
DECLARE
    s daybook.session;
BEGIN
    IF suspects THEN
        SELECT w.* INTO s FROM daybook.session w WHERE w.id = session FOR NO KEY UPDATE;
        suspects := NOT EXISTS (SELECT 1 FROM daybook.owned o WHERE o.session = s.n AND o.suspect);
    ELSE
        SELECT w.* INTO s FROM daybook.session w WHERE w.id = session FOR SHARE;
    END IF;
    IF checks AND NOT daybook.may_claim(s, now_at) THEN
        RAISE EXCEPTION 'session % has changed under a claim', session USING ERRCODE = '40001'; -- and look again
    END IF;
    RETURN suspects;
END $$;

-- Locks the first eligible jobs of one rank, a suspect in its own place among
-- them, in order. It may lock one more than it answers; that one stays.
CREATE OR REPLACE FUNCTION daybook.ready_in_rank(lane int, rank int, begin_at bigint, begin_seq bigint,
    now_at bigint, kinds text[], most int, suspects boolean)
    RETURNS TABLE (place tid, seq bigint, run_at bigint, ledger boolean, suspect boolean) LANGUAGE plpgsql
AS $$
#variable_conflict use_variable
BEGIN
    RETURN QUERY SELECT * FROM (
        SELECT * FROM (SELECT r.ctid, r.seq, r.run_at, r.ledger, false FROM daybook.ready r
            WHERE r.lane = lane AND r.rank = rank AND (r.run_at, r.seq) >= (begin_at, begin_seq) AND r.run_at <= now_at
                AND (r.expires_at IS NULL OR r.expires_at > now_at) AND NOT r.suspect
                AND (kinds IS NULL OR r.kind = ANY (kinds))
            ORDER BY r.run_at, r.seq LIMIT most FOR UPDATE SKIP LOCKED) a
        UNION ALL
        SELECT * FROM (SELECT r.ctid, r.seq, r.run_at, r.ledger, true FROM daybook.ready r
            WHERE r.lane = lane AND r.rank = rank AND r.run_at <= now_at
                AND (r.expires_at IS NULL OR r.expires_at > now_at) AND r.suspect
                AND (kinds IS NULL OR r.kind = ANY (kinds))
            ORDER BY r.run_at, r.seq LIMIT suspects::int FOR UPDATE SKIP LOCKED) b) f
        ORDER BY 3, 2 LIMIT most;
END $$;

-- One call at a time: who repeats a call while it is being made waits, and then
-- gets what it was given. NULL is no call.
CREATE OR REPLACE FUNCTION daybook.lock_call(call uuid) RETURNS void LANGUAGE sql VOLATILE
AS $$ SELECT pg_advisory_xact_lock(20013, hashtext($1::text)) $$;

-- Whether a call wasn't made yet. What is asked here sees what was committed while it
-- waited.
CREATE OR REPLACE FUNCTION daybook.new_call(call uuid) RETURNS boolean LANGUAGE plpgsql VOLATILE
AS $$
#variable_conflict use_variable
BEGIN
    IF pg_advisory_xact_lock(20013, hashtext(call::text)) IS NULL THEN
        RETURN NULL;
    END IF;
    RETURN (SELECT true FROM daybook.call c WHERE c.id = call) IS NULL;
END $$;

-- Whether a session may claim without a closer look.
CREATE OR REPLACE FUNCTION daybook.may_claim(s daybook.session, now_at bigint) RETURNS boolean LANGUAGE sql IMMUTABLE
AS $$ SELECT $1.n IS NOT NULL AND $1.ended_at IS NULL AND NOT $1.quiet AND $1.expires_at - $2 >= $1.lease / 2 $$;

-- Gives up to most eligible jobs to a session. No row is the answer that it has
-- changed nothing because the call wants a closer look: it was made before, or
-- the session is unknown, ended, quiet, or below half of its lease. A caller that
-- has looked (incarnation isn't NULL) gets jobs all the same. The first row has
-- nothing but the header: what else there is to say, as JSON. The others come in
-- no order.
--
-- Each queue gives a fair share first and then whatever there is; of more than
-- 64 queues, 64 after 64. kinds NULL is every kind, call NULL is not remembered.
-- Marks are those of take_ready, one queue's after the other's: mark_ends has,
-- for each queue, how many there are up to and with its own. lists asks for the
-- session's queues and kinds: they never change, and can be many.
CREATE OR REPLACE FUNCTION daybook.claim_jobs(session uuid, call uuid, incarnation bigint, queues text[],
    kinds text[], most int, oldest boolean, now_at bigint, mark_ends int[], mark_ranks int[], mark_run_ats bigint[],
    mark_seqs bigint[], gaps boolean, lists boolean)
    RETURNS TABLE (seq bigint, id uuid, queue int, rank smallint, kind text, args text, generation bigint,
        enqueued_at bigint, run_at bigint, expires_at bigint, max_failures int, set_aside_lost boolean,
        timeout bigint, key text, failures int, crashes int, first_claimed_at bigint, origin text, effects text,
        header text, trace text) LANGUAGE plpgsql
    SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET enable_bitmapscan = off
    SET enable_sort = off SET jit = off SET plan_cache_mode = force_generic_plan
AS $$
#variable_conflict use_variable
DECLARE
    group_size CONSTANT int := 64;
    s        daybook.session;
    checks   boolean := false;
    held     boolean := false;
    lanes    int[];
    last     int := 0; -- the last queue that was looked at
    share    int;
    room     int;
    want     int;
    got      record;
    found    record;
    shares   record;
    taken    int[];
    more     boolean[];
    seqs     bigint[] := '{}';
    ledgers  bigint[] := '{}';
    suspects boolean;
    suspect  bigint;
    begun    timestamptz;
    gap_time interval := '0';
BEGIN
    PERFORM daybook.claims_shared(), daybook.lock_call(call);
    now_at := coalesce(now_at, daybook.clock());
    SELECT w AS session, l.lanes, EXISTS (SELECT 1 FROM daybook.call c WHERE c.id = call) AS known,
        EXISTS (SELECT 1 FROM daybook.ready r WHERE r.suspect AND r.lane = ANY (l.lanes))
            AND NOT EXISTS (SELECT 1 FROM daybook.owned o WHERE o.session = w.n AND o.suspect) AS suspects
        INTO found
        FROM (SELECT ARRAY(SELECT (SELECT w.n FROM daybook.queue w WHERE w.name = u.name AND w.paused_at IS NULL)
            FROM unnest(queues) u(name)) AS lanes OFFSET 0) l LEFT JOIN daybook.session w ON w.id = session;
    s := found.session;
    lanes := found.lanes;
    suspects := found.suspects;
    IF incarnation IS NULL THEN
        IF found.known OR NOT daybook.may_claim(s, now_at) THEN
            RETURN;
        END IF;
        incarnation := daybook.current_incarnation();
        checks := true;
    ELSIF found.known THEN
        RAISE EXCEPTION 'claim call % was made meanwhile', call USING ERRCODE = '40001'; -- and look again
    END IF;
    taken := array_fill(0, ARRAY[coalesce(cardinality(lanes), 0)]);
    more := array_fill(true, ARRAY[coalesce(cardinality(lanes), 0)]);
    begun := clock_timestamp();
    FOR low IN 1..coalesce(cardinality(lanes), 0) BY group_size LOOP
        last := least(low + group_size - 1, cardinality(lanes));
        room := most - cardinality(seqs);
        share := (room + last - low) / (last - low + 1);
        FOR pass IN 1..CASE WHEN share = room THEN 1 ELSE 2 END LOOP
            room := most - cardinality(seqs);
            IF last > low AND NOT suspects AND room > 0 THEN
                shares := daybook.take_shares(session, checks, ARRAY(SELECT CASE WHEN more[i]
                        AND (mark_ends IS NULL OR mark_ends[i] = coalesce(mark_ends[i - 1], 0)) THEN lanes[i] END
                    FROM generate_series(low, last) i ORDER BY i), CASE pass WHEN 1 THEN share ELSE room END, room,
                    oldest, now_at, kinds, held);
                held := shares.held;
                FOR i IN 1..coalesce(cardinality(shares.gave), 0) LOOP
                    taken[low - 1 + shares.gave[i]] := taken[low - 1 + shares.gave[i]] + shares.counts[i];
                END LOOP;
                FOR i IN 1..cardinality(shares.dry) LOOP
                    more[low - 1 + shares.dry[i]] := false;
                END LOOP;
                seqs := seqs || coalesce(shares.seqs, '{}');
                ledgers := ledgers || coalesce(shares.ledgers, '{}');
            END IF;
            FOR i IN low..last LOOP
                room := most - cardinality(seqs);
                EXIT WHEN room = 0;
                CONTINUE WHEN lanes[i] IS NULL OR NOT more[i];
                want := CASE pass WHEN 1 THEN least(share - taken[i], room) ELSE room END;
                CONTINUE WHEN want = 0;
                got := daybook.take_ready(session, checks, lanes[i], want, oldest, now_at, kinds,
                    mark_ranks[coalesce(mark_ends[i - 1], 0) + 1:mark_ends[i]],
                    mark_run_ats[coalesce(mark_ends[i - 1], 0) + 1:mark_ends[i]],
                    mark_seqs[coalesce(mark_ends[i - 1], 0) + 1:mark_ends[i]], gaps, held, suspects);
                held := got.held;
                suspects := got.suspects;
                gap_time := gap_time + got.gap_time;
                more[i] := coalesce(cardinality(got.seqs), 0) = want;
                CONTINUE WHEN coalesce(cardinality(got.seqs), 0) = 0;
                seqs := seqs || got.seqs;
                ledgers := ledgers || got.ledgers;
                taken[i] := taken[i] + cardinality(got.seqs);
                suspect := coalesce(suspect, got.suspect);
            END LOOP;
        END LOOP;
        EXIT WHEN cardinality(seqs) = most;
    END LOOP;
    IF held THEN
        SELECT w.* INTO s FROM daybook.session w WHERE w.n = s.n; -- as it was when it was locked
    END IF;
    header := json_build_object('now', now_at, 'lanes', lanes, 'looked_at', last,
        'dry', ARRAY(SELECT u.place FROM unnest(more[1:last]) WITH ORDINALITY u(more, place) WHERE NOT u.more),
        'looked', daybook.micros(clock_timestamp() - begun), 'gaps', daybook.micros(gap_time),
        'n', s.n, 'worker', s.worker, 'lease', s.lease, 'started_at', s.started_at, 'renewed_at', s.renewed_at,
        'expires_at', s.expires_at, 'marked_at', s.marked_at, 'renewals', s.renewals, 'starts', s.starts,
        'quiet', s.quiet, 'queues', CASE WHEN lists THEN s.queues END, 'kinds', CASE WHEN lists THEN s.kinds END);
    RETURN NEXT;
    IF seqs = '{}' THEN
        RETURN;
    END IF;
    RETURN QUERY
    WITH x AS MATERIALIZED (
        SELECT j.seq, j.id, j.queue, j.rank, j.kind, j.args, j.enqueued_at, j.run_at, j.expires_at, j.max_failures,
            j.set_aside_lost, j.timeout, j.key, j.failures, j.crashes, j.first_claimed_at, j.origin, j.trace,
            greatest(coalesce(j.generation, 0) + 1, incarnation << 32) AS next, j.seq = ANY (ledgers) AS ledger
        FROM daybook.job j WHERE j.seq = ANY (seqs)),
    c AS (INSERT INTO daybook.call AS c (id, session, at) SELECT call, s.n, now_at WHERE call IS NOT NULL
        RETURNING c.n),
    o AS (INSERT INTO daybook.owned (id, seq, generation, session, claimed_at, call, queue, granted, suspect, ledger,
            deadline)
        SELECT x.id, x.seq, x.next, s.n, now_at, (SELECT c.n FROM c), x.queue, s.renewals,
            x.seq IS NOT DISTINCT FROM suspect, x.ledger, now_at + x.timeout FROM x),
    b AS (INSERT INTO daybook.outbox (at, queue, ring, waiting, running, attempts)
        SELECT now_at, u.lane, false, -u.n, u.n, u.n FROM unnest(lanes, taken) u(lane, n) WHERE u.n > 0)
    SELECT x.seq, x.id, x.queue, x.rank, x.kind, x.args, x.next, x.enqueued_at, x.run_at, x.expires_at, x.max_failures,
        x.set_aside_lost, x.timeout, x.key, x.failures, x.crashes, x.first_claimed_at, x.origin,
        CASE WHEN x.ledger THEN (SELECT string_agg(e.name || ' ' || e.state, ',' ORDER BY e.name COLLATE "C")
            FROM daybook.effect e WHERE e.seq = x.seq) END, NULL::text, x.trace
    FROM x;
END $$;

CREATE OR REPLACE FUNCTION daybook.micros(spent interval) RETURNS bigint LANGUAGE sql IMMUTABLE
AS $$ SELECT (extract(epoch FROM $1) * 1000000)::bigint $$;

-- The queues that have something due, of up to most lanes above after. Its last
-- row has no name and says where to go on; 0 is the end.
CREATE OR REPLACE FUNCTION daybook.due_queues(after int, most int, now_at bigint) RETURNS TABLE (lane int, name text)
LANGUAGE plpgsql
    SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET enable_bitmapscan = off
    SET enable_sort = off SET jit = off SET plan_cache_mode = force_generic_plan
AS $$
#variable_conflict use_variable
DECLARE
    lanes int[];
    ranks int[];
    dues  bigint[];
BEGIN
    now_at := coalesce(now_at, daybook.clock());
    WITH RECURSIVE heads (lane, rank, run_at) AS (
        (SELECT r.lane, r.rank, r.run_at FROM daybook.ready r WHERE r.lane > greatest(after, 0)
            ORDER BY r.lane, r.rank, r.run_at, r.seq LIMIT 1)
        UNION ALL
        SELECT r.lane, r.rank, r.run_at FROM heads h CROSS JOIN LATERAL (SELECT r.lane, r.rank, r.run_at
            FROM daybook.ready r WHERE r.lane > h.lane ORDER BY r.lane, r.rank, r.run_at, r.seq LIMIT 1) r)
    SELECT array_agg(f.lane), array_agg(f.rank), array_agg(f.run_at) INTO lanes, ranks, dues
        FROM (SELECT * FROM heads LIMIT most) f;
    RETURN QUERY SELECT u.lane, q.name FROM unnest(lanes, ranks, dues) u(lane, rank, run_at)
        CROSS JOIN LATERAL (SELECT w.name FROM daybook.queue w WHERE w.n = u.lane OFFSET 0) q
        WHERE CASE WHEN u.run_at <= now_at THEN true ELSE daybook.due_below(u.lane, u.rank, now_at) END;
    lane := CASE WHEN cardinality(lanes) = most THEN lanes[most] ELSE 0 END;
    name := NULL;
    RETURN NEXT;
END $$;

-- Whether a lane has something due in a rank above this one. The first of a rank
-- is its earliest.
CREATE OR REPLACE FUNCTION daybook.due_below(lane int, rank int, now_at bigint) RETURNS boolean LANGUAGE plpgsql
AS $$
#variable_conflict use_variable
DECLARE
    run_at bigint;
BEGIN
    LOOP
        SELECT r.rank, r.run_at INTO rank, run_at FROM daybook.ready r
            WHERE r.lane = lane AND r.rank > rank ORDER BY r.rank, r.run_at, r.seq LIMIT 1;
        IF run_at IS NULL OR run_at <= now_at THEN
            RETURN run_at IS NOT NULL;
        END IF;
    END LOOP;
END $$;

-- Ends claims of one session well, as one set, and tells by their places in the
-- list (from 1) which of them are missing: they belong to somebody else by now,
-- have effects, or are locked, and want a closer look. partial says what to do
-- then: move the others, or none.
--
-- The usual set, all of it plain and without results, is one statement. A row
-- that was updated since that began is locked in its new version, which its
-- delete doesn't see: it counts as missing.
CREATE OR REPLACE FUNCTION daybook.complete_jobs(session uuid, ids uuid[], generations bigint[], results text[],
    partial boolean, INOUT now_at bigint, OUT missing int[]) LANGUAGE plpgsql
    SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET enable_bitmapscan = off
    SET enable_sort = off SET jit = off SET plan_cache_mode = force_generic_plan
AS $$
#variable_conflict use_variable
DECLARE
    owner  bigint := (SELECT s.n FROM daybook.session s WHERE s.id = session);
    places tid[];
    said   text[];
    done   uuid[];
    moved  bigint;
BEGIN
    now_at := coalesce(now_at, daybook.clock());
    IF results IS NULL AND partial THEN
        WITH d AS (DELETE FROM daybook.owned w WHERE w.ctid = ANY (ARRAY(
                SELECT o.place FROM unnest(ids, generations) u(id, generation)
                CROSS JOIN LATERAL (SELECT w.ctid AS place FROM daybook.owned w WHERE w.id = u.id
                    AND w.generation = u.generation AND w.session = owner AND NOT w.ledger
                    OFFSET 0 FOR UPDATE SKIP LOCKED) o))
            RETURNING w.id, w.seq, w.generation, w.session, w.claimed_at, w.started_at, w.queue),
        e AS (INSERT INTO daybook.ended (filed_at, seq, generation, session, claimed_at, outcome, started_at)
            SELECT now_at, d.seq, d.generation, d.session, d.claimed_at, 1, d.started_at FROM d),
        b AS (INSERT INTO daybook.outbox (at, queue, ring, running, succeeded)
            SELECT now_at, d.queue, false, -count(*), count(*) FROM d GROUP BY d.queue)
        SELECT array_agg(d.id) INTO done FROM d;
        moved := coalesce(cardinality(done), 0);
        IF moved < cardinality(ids) THEN
            missing := ARRAY(SELECT u.nth::int FROM unnest(ids) WITH ORDINALITY u(id, nth)
                WHERE done IS NULL OR u.id <> ALL (done));
        END IF;
        IF moved + coalesce(cardinality(missing), 0) <> cardinality(ids) THEN
            RAISE EXCEPTION 'a job is named twice in one set' USING ERRCODE = 'OB004';
        END IF;
        RETURN;
    END IF;
    SELECT array_agg(o.place) FILTER (WHERE o.place IS NOT NULL),
        array_agg(u.result) FILTER (WHERE o.place IS NOT NULL), array_agg(u.nth::int) FILTER (WHERE o.place IS NULL)
        INTO places, said, missing
        FROM unnest(ids, generations, results) WITH ORDINALITY u(id, generation, result, nth)
        LEFT JOIN LATERAL (SELECT w.ctid AS place FROM daybook.owned w WHERE w.id = u.id
            AND w.generation = u.generation AND w.session = owner AND NOT w.ledger
            OFFSET 0 FOR UPDATE SKIP LOCKED) o ON true;
    IF places IS NULL OR missing IS NOT NULL AND NOT partial THEN
        RETURN;
    END IF;
    WITH e AS (INSERT INTO daybook.ended (filed_at, seq, generation, session, claimed_at, outcome, started_at,
            result)
        SELECT now_at, o.seq, o.generation, o.session, o.claimed_at, 1, o.started_at, u.result
        FROM unnest(places, said) u(place, result)
        CROSS JOIN LATERAL (SELECT w.* FROM daybook.owned w WHERE w.ctid = u.place OFFSET 0) o),
    d AS (DELETE FROM daybook.owned w WHERE w.ctid = ANY (places) RETURNING w.queue),
    b AS (INSERT INTO daybook.outbox AS w (at, queue, ring, running, succeeded)
        SELECT now_at, d.queue, false, -count(*), count(*) FROM d GROUP BY d.queue RETURNING w.succeeded)
    SELECT sum(b.succeeded) INTO moved FROM b;
    IF moved <> cardinality(places) THEN
        RAISE EXCEPTION 'a job is named twice in one set' USING ERRCODE = 'OB004';
    END IF;
END $$;

-- Binds distinct request keys to jobs, in the order given, which should be the
-- same for all callers. It answers those that were bound before; a rival that is
-- about to bind one is waited for. What is there is read in a later statement
-- than the one that found it taken.
CREATE OR REPLACE FUNCTION daybook.bind_keys(now_at bigint, keys text[], jobs uuid[], fingerprints text[])
    RETURNS TABLE (key text, job uuid, fingerprint text) LANGUAGE plpgsql
    SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET enable_bitmapscan = off
    SET enable_sort = off SET jit = off SET plan_cache_mode = force_generic_plan
AS $$
#variable_conflict use_variable
DECLARE
    fresh text[];
    old   bigint;
BEGIN
    now_at := coalesce(now_at, daybook.clock());
    WITH i AS (INSERT INTO daybook.request AS r (key, job, fingerprint, created_at)
        SELECT u.key, u.job, decode(u.fingerprint, 'hex'), now_at
        FROM unnest(keys, jobs, fingerprints) u(key, job, fingerprint) ON CONFLICT DO NOTHING RETURNING r.key)
    SELECT array_agg(i.key) INTO fresh FROM i;
    IF cardinality(fresh) = cardinality(keys) THEN
        RETURN;
    END IF;
    RETURN QUERY SELECT r.key, r.job, encode(r.fingerprint, 'hex')
        FROM (SELECT u.key FROM unnest(keys) u(key) EXCEPT SELECT f.key FROM unnest(fresh) f(key)) k
        CROSS JOIN LATERAL (SELECT w.* FROM daybook.request w WHERE w.key = k.key OFFSET 0) r;
    GET DIAGNOSTICS old = ROW_COUNT;
    IF old + coalesce(cardinality(fresh), 0) < cardinality(keys) THEN
        RAISE EXCEPTION 'a request key was dropped meanwhile' USING ERRCODE = '40001'; -- and bind it anew
    END IF;
END $$;

-- Counts replays of request keys, in the order given.
CREATE OR REPLACE FUNCTION daybook.count_replays(now_at bigint, keys text[], times int[]) RETURNS void LANGUAGE plpgsql
    SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET enable_bitmapscan = off
    SET enable_sort = off SET jit = off SET plan_cache_mode = force_generic_plan
AS $$
#variable_conflict use_variable
BEGIN
    now_at := coalesce(now_at, daybook.clock());
    UPDATE daybook.request r SET replays = r.replays + u.n, last_replay_at = now_at
        FROM unnest(keys, times) u(key, n) WHERE r.key = u.key;
END $$;

-- What a request of a job by its id is compared with.
CREATE OR REPLACE FUNCTION daybook.known_jobs(ids uuid[])
    RETURNS TABLE (id uuid, queue text, kind text, args text, key text) LANGUAGE plpgsql STABLE
    SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET enable_bitmapscan = off
    SET enable_sort = off SET jit = off SET plan_cache_mode = force_generic_plan
AS $$
#variable_conflict use_variable
BEGIN
    RETURN QUERY SELECT j.id, q.name, j.kind, j.args, j.key FROM unnest(ids) u(id)
        CROSS JOIN LATERAL (SELECT w.* FROM daybook.job w WHERE w.id = u.id OFFSET 0) j
        CROSS JOIN LATERAL (SELECT w.name FROM daybook.queue w WHERE w.n = j.queue OFFSET 0) q;
END $$;
