-- The book to read, in any language: states and outcomes by name, times as
-- timestamptz. Columns are only ever added at the end.

-- One row a job. A job by its id is a few index probes, however full the book is.
CREATE OR REPLACE VIEW daybook.jobs AS
SELECT j.id, q.name AS queue, j.kind, j.args::json AS args,
    CASE WHEN j.state <> 0 THEN
            (ARRAY['waiting', 'running', 'succeeded', 'set_aside', 'cancelled', 'expired', 'moved'])[j.state]
        WHEN o.id IS NOT NULL THEN 'running' WHEN r.seq IS NOT NULL THEN 'waiting' ELSE 'succeeded' END AS state,
    j.reason, ~j.rank::int AS priority,
    daybook.instant(coalesce(j.run_at, j.enqueued_at)) AS run_at,
    daybook.instant(j.expires_at) AS expires_at,
    j.held_by,
    coalesce(o.generation, d.generation, j.generation, 0) AS generation,
    coalesce(j.failures, 0) AS failures, coalesce(j.crashes, 0) AS crashes,
    coalesce(j.max_failures, 20) AS max_failures,
    CASE WHEN j.set_aside_lost THEN 'set_aside' ELSE 'retry' END AS on_lost,
    coalesce(j.timeout, 86400000000) / 1000000 * interval '1 second'
        + coalesce(j.timeout, 0) % 1000000 * interval '1 microsecond' AS timeout,
    j.key, j.origin::json AS origin,
    coalesce(d.result, j.result)::json AS result,
    (SELECT p.progress FROM daybook.progress p WHERE p.seq = j.seq)::json AS progress,
    (SELECT e.error FROM daybook.ended e WHERE e.seq = j.seq AND e.error IS NOT NULL AND j.generation IS NOT NULL
        ORDER BY e.generation DESC LIMIT 1) AS last_error,
    s.id AS session, s.worker,
    daybook.instant(s.expires_at) AS lease_until,
    daybook.instant(o.cancel_requested_at) AS cancel_requested_at,
    daybook.instant(j.enqueued_at) AS enqueued_at,
    daybook.instant(coalesce(o.claimed_at, d.claimed_at)) AS claimed_at,
    daybook.instant(coalesce(d.ended_at, j.ended_at)) AS ended_at,
    left(j.trace, 55) AS traceparent, nullif(substr(j.trace, 57), '') AS tracestate
FROM daybook.job j
JOIN daybook.queue q ON q.n = j.queue
LEFT JOIN daybook.owned o ON o.id = j.id
LEFT JOIN daybook.session s ON s.n = o.session
LEFT JOIN daybook.ready r ON r.lane = CASE WHEN j.held_by IS NULL THEN j.queue ELSE -j.queue END AND r.rank = j.rank
    AND r.run_at = coalesce(j.run_at, j.enqueued_at) AND r.seq = j.seq
LEFT JOIN LATERAL (SELECT e.generation, e.claimed_at, coalesce(e.ended_at, e.filed_at) AS ended_at, e.result
    FROM daybook.ended e WHERE e.seq = j.seq AND e.outcome = 1 AND j.state = 0 AND o.id IS NULL AND r.seq IS NULL
    ORDER BY e.generation DESC LIMIT 1) d ON true;

-- One row an attempt that ended, or a run of releases: then attempts says how
-- many, and first_generation which was the first.
CREATE OR REPLACE VIEW daybook.attempts AS
SELECT j.id AS job, e.generation, coalesce(e.first, e.generation) AS first_generation, coalesce(e.count, 1) AS attempts,
    s.id AS session, coalesce(e.worker, s.worker) AS worker,
    daybook.instant(e.claimed_at) AS claimed_at,
    daybook.instant(e.started_at) AS started_at,
    daybook.instant(coalesce(e.ended_at, e.filed_at)) AS ended_at,
    (ARRAY['succeeded', 'failed', 'released', 'lost', 'cancelled', 'asked'])[e.outcome] AS outcome,
    e.why, e.error, e.error_kind, e.trace, coalesce(e.cut, false) AS cut
FROM daybook.job j JOIN daybook.ended e ON e.seq = j.seq
LEFT JOIN daybook.session s ON s.n = e.session;

-- The ledger of effects. late is what fenced owners said, by time: a list of
-- {generation, at, outcome, said}.
CREATE OR REPLACE VIEW daybook.effects AS
SELECT j.id AS job, e.name, e.policy, e.state, e.generation, e.round, e.key, e.result::json AS result,
    daybook.instant(e.begun_at) AS begun_at,
    daybook.instant(e.ended_at) AS ended_at,
    e.settled_by, e.doubled,
    daybook.instant(e.call_until) AS call_until,
    daybook.instant(e.safe_until) AS safe_until,
    e.state = 'open' AS open,
    (SELECT json_agg(json_build_object('generation', l.generation, 'at', daybook.stamp(l.at), 'outcome', l.outcome,
            'said', l.said) ORDER BY l.at, l.generation)
        FROM daybook.late_evidence l WHERE l.seq = e.seq AND l.name = e.name) AS late
FROM daybook.effect e JOIN daybook.job j ON j.seq = e.seq;

-- What there is to do, by queue and kind. It reads every job that isn't done.
-- The age of the oldest says nothing where a queue is paused. Effects count
-- wherever their job is: open ones, and those known to have happened twice.
CREATE OR REPLACE VIEW daybook.backlog AS
SELECT q.name AS queue, l.kind, q.paused_at IS NOT NULL AS paused,
    coalesce(sum(l.n) FILTER (WHERE l.place = 'eligible'), 0)::bigint AS eligible,
    coalesce(sum(l.n) FILTER (WHERE l.place = 'later'), 0)::bigint AS later,
    coalesce(sum(l.n) FILTER (WHERE l.place = 'held'), 0)::bigint AS held,
    coalesce(sum(l.n) FILTER (WHERE l.place = 'running'), 0)::bigint AS running,
    coalesce(sum(l.n) FILTER (WHERE l.place = 'set_aside'), 0)::bigint AS set_aside,
    coalesce(json_object_agg(l.reason, l.n ORDER BY l.reason) FILTER (WHERE l.place = 'set_aside'), '{}')
        AS set_aside_reasons,
    daybook.instant(min(l.oldest) FILTER (WHERE l.place = 'eligible' AND q.paused_at IS NULL)) AS oldest_eligible_at,
    coalesce(sum(l.n) FILTER (WHERE l.place = 'open effect'), 0)::bigint AS open_effects,
    coalesce(sum(l.n) FILTER (WHERE l.place = 'doubled effect'), 0)::bigint AS doubled_effects
FROM (
    SELECT abs(r.lane) AS queue, r.kind,
        CASE WHEN r.lane < 0 THEN 'held' WHEN r.run_at <= c.now_at THEN 'eligible' ELSE 'later' END AS place,
        NULL AS reason, count(*) AS n, min(r.run_at) AS oldest
    FROM daybook.ready r CROSS JOIN (SELECT daybook.clock() AS now_at OFFSET 0) c GROUP BY 1, 2, 3
    UNION ALL
    SELECT j.queue, j.kind, 'running', NULL, count(*), NULL
    FROM daybook.owned o JOIN daybook.job j ON j.seq = o.seq GROUP BY 1, 2
    UNION ALL
    SELECT j.queue, j.kind, 'set_aside', coalesce(j.reason, ''), count(*), NULL FROM daybook.job j
    WHERE j.state = 4 AND j.state <> 0 GROUP BY 1, 2, 4
    UNION ALL
    SELECT j.queue, j.kind, f.place, NULL, count(*), NULL
    FROM (SELECT e.seq, 'open effect' AS place FROM daybook.effect e WHERE e.state = 'open'
        UNION ALL SELECT e.seq, 'doubled effect' FROM daybook.effect e WHERE e.doubled) f
    JOIN daybook.job j ON j.seq = f.seq GROUP BY 1, 2, 3) l
JOIN daybook.queue q ON q.n = l.queue
GROUP BY q.name, l.kind, q.paused_at;
