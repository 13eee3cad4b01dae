-- The book in SQLite. Times are microseconds since 1970 in UTC, ids 16 bytes.
--
-- A row says where a job is. `job` is what was asked for, and what slow moves
-- (retry, release, loss, a person) leave in it; the fast path never updates it:
--   enqueue  inserts job and ready
--   claim    moves ready to owned
--   complete moves owned to ended
-- So a job is waiting when `ready` has it, running when `owned` has it,
-- succeeded when `ended` has a success of it, and else what job.state says.

CREATE TABLE setting (
    name  TEXT PRIMARY KEY,
    value TEXT NOT NULL
) WITHOUT ROWID;

CREATE TABLE queue (
    n             INTEGER PRIMARY KEY,
    name          TEXT NOT NULL UNIQUE,
    paused_at     INTEGER,
    paused_by     TEXT,
    paused_reason TEXT
);

CREATE TABLE job (
    seq              INTEGER PRIMARY KEY AUTOINCREMENT, -- arrival; never used again
    id               BLOB NOT NULL UNIQUE,
    queue            INTEGER NOT NULL,             -- queue.n; never changes
    kind             TEXT NOT NULL,
    rank             INTEGER NOT NULL,             -- -1 - priority: ascending rank is descending priority
    state            INTEGER NOT NULL DEFAULT 0,   -- 0: ready, owned and ended tell; else 1 + place in daybook.States
    run_at           INTEGER NOT NULL,             -- when it is or became eligible
    max_failures     INTEGER NOT NULL,
    set_aside_lost   INTEGER NOT NULL DEFAULT 0,   -- on_lost is set_aside
    timeout          INTEGER NOT NULL,             -- run limit, microseconds
    enqueued_at      INTEGER NOT NULL,
    expires_at       INTEGER,
    key              TEXT,
    generation       INTEGER NOT NULL DEFAULT 0,   -- as of the last slow move; owned and ended know better
    failures         INTEGER NOT NULL DEFAULT 0,
    crashes          INTEGER NOT NULL DEFAULT 0,
    first_claimed_at INTEGER,
    ended_at         INTEGER,                      -- of states that job.state tells
    reason           TEXT,
    held_by          TEXT,
    origin           TEXT,                         -- JSON
    result           TEXT,                         -- of a success that a person settled
    trace            TEXT,                         -- W3C Trace Context: traceparent, then a space and tracestate
    args             TEXT NOT NULL
);
CREATE INDEX job_slow   ON job (state, seq) WHERE state <> 0;
CREATE INDEX job_ended  ON job (ended_at) WHERE ended_at IS NOT NULL;
CREATE UNIQUE INDEX job_origin ON job (origin) WHERE origin IS NOT NULL;

-- Waiting jobs in the order in which they run. A held job's lane is its
-- queue's number negated, so that claims never walk over it.
CREATE TABLE ready (
    lane       INTEGER NOT NULL,
    rank       INTEGER NOT NULL,
    run_at     INTEGER NOT NULL,
    seq        INTEGER NOT NULL,
    suspect    INTEGER NOT NULL DEFAULT 0,
    expires_at INTEGER,
    PRIMARY KEY (lane, rank, run_at, seq)
) WITHOUT ROWID;
CREATE INDEX ready_expiry  ON ready (expires_at) WHERE expires_at IS NOT NULL;
CREATE INDEX ready_suspect ON ready (lane, run_at) WHERE suspect <> 0;

CREATE TABLE owned (
    seq                 INTEGER PRIMARY KEY,
    generation          INTEGER NOT NULL,
    session             INTEGER NOT NULL,          -- session.n
    queue               INTEGER NOT NULL,          -- queue.n, so that a completion counts without the job
    claimed_at          INTEGER NOT NULL,
    deadline            INTEGER NOT NULL,          -- claimed_at + the job's run limit
    granted             INTEGER NOT NULL,          -- the session's listing renewals at the grant
    suspect             INTEGER NOT NULL DEFAULT 0,
    started_at          INTEGER,
    cancel_requested_at INTEGER
);
CREATE INDEX owned_suspect ON owned (session) WHERE suspect <> 0;

-- One row per ended attempt, or per run of folded releases. `through` is the
-- highest generation that the row accounts for.
CREATE TABLE ended (
    seq        INTEGER NOT NULL,
    generation INTEGER NOT NULL,
    through    INTEGER NOT NULL,
    session    INTEGER NOT NULL,
    outcome    INTEGER NOT NULL,
    claimed_at INTEGER NOT NULL,
    ended_at   INTEGER NOT NULL,
    started_at INTEGER,
    first      INTEGER,
    count      INTEGER,
    worker     TEXT,                               -- kept here unless it succeeded: sessions go sooner
    why        TEXT,
    error      TEXT,
    error_kind TEXT,
    trace      TEXT,
    cut        INTEGER,
    result     TEXT,
    PRIMARY KEY (seq, generation)
) WITHOUT ROWID;
CREATE INDEX ended_success ON ended (ended_at) WHERE outcome = 1;

CREATE TABLE progress (
    seq        INTEGER PRIMARY KEY,
    generation INTEGER NOT NULL,
    progress   TEXT NOT NULL
);

CREATE TABLE session (
    n          INTEGER PRIMARY KEY AUTOINCREMENT,
    id         BLOB NOT NULL UNIQUE,
    worker     TEXT NOT NULL,
    lease      INTEGER NOT NULL,                   -- microseconds
    started_at INTEGER NOT NULL,
    renewed_at INTEGER NOT NULL,
    expires_at INTEGER NOT NULL,
    ended_at   INTEGER,
    marked_at  INTEGER,
    renewals   INTEGER NOT NULL DEFAULT 0,         -- that listed claims
    starts     INTEGER NOT NULL DEFAULT 0,
    quiet      INTEGER NOT NULL DEFAULT 0,
    queues     TEXT NOT NULL DEFAULT '[]',         -- JSON
    kinds      TEXT NOT NULL DEFAULT '[]'
);
CREATE INDEX session_live  ON session (expires_at) WHERE ended_at IS NULL;
CREATE INDEX session_ended ON session (ended_at) WHERE ended_at IS NOT NULL;

-- What a claim call was given: runs of rows, [[first seq, generation, how many], …].
CREATE TABLE call (
    id      BLOB PRIMARY KEY,
    session INTEGER NOT NULL,
    at      INTEGER NOT NULL,
    given   TEXT NOT NULL
) WITHOUT ROWID;
CREATE INDEX call_session ON call (session);

CREATE TABLE request (
    key            TEXT PRIMARY KEY,
    job            BLOB NOT NULL,
    fingerprint    BLOB NOT NULL,
    created_at     INTEGER NOT NULL,
    replays        INTEGER NOT NULL DEFAULT 0,
    last_replay_at INTEGER,
    ended_at       INTEGER,                        -- with state and result: written when the job's row goes
    state          TEXT,
    result         TEXT
) WITHOUT ROWID;
CREATE INDEX request_ended ON request (ended_at) WHERE ended_at IS NOT NULL;

-- The ledger: what jobs do outside, one row a name.
CREATE TABLE effect (
    seq         INTEGER NOT NULL,
    name        TEXT NOT NULL,
    policy      TEXT NOT NULL,
    state       TEXT NOT NULL,
    generation  INTEGER NOT NULL,                   -- of the newest begin that was told to call
    round       INTEGER NOT NULL DEFAULT 0,
    key         TEXT NOT NULL,
    begun_at    INTEGER NOT NULL,
    ended_at    INTEGER,
    settled_by  TEXT,
    doubled     INTEGER NOT NULL DEFAULT 0,
    result      TEXT,
    call_until  INTEGER,                            -- its calls have been given up by then
    safe_until  INTEGER,                            -- keyed: the destination knows the key until then
    quiet       INTEGER,                            -- checked: microseconds
    fingerprint TEXT,
    call        BLOB,                               -- of the newest begin, whatever it was told
    used        INTEGER,                            -- its generation
    probed      INTEGER,                            -- generation that was told to probe since the newest call
    unsure      INTEGER,                            -- an elder call's generation, while nobody knows how that ended
    PRIMARY KEY (seq, name)
) WITHOUT ROWID;
CREATE INDEX effect_open ON effect (seq) WHERE state = 'open';
CREATE INDEX effect_doubled ON effect (seq) WHERE doubled <> 0;
CREATE INDEX effect_happened ON effect (seq) WHERE name = 'handler' AND state = 'done';

-- Every leave to call that the ledger gave.
CREATE TABLE effect_call (
    seq        INTEGER NOT NULL,
    name       TEXT NOT NULL,
    generation INTEGER NOT NULL,
    round      INTEGER NOT NULL,
    at         INTEGER NOT NULL,
    PRIMARY KEY (seq, name, generation, round)
) WITHOUT ROWID;

-- What people and the book itself did to a job.
CREATE TABLE event (
    n          INTEGER PRIMARY KEY,
    seq        INTEGER NOT NULL,
    at         INTEGER NOT NULL,
    what       TEXT NOT NULL,
    generation INTEGER,
    actor      TEXT,
    reason     TEXT,
    detail     TEXT
);
CREATE INDEX event_job ON event (seq);

-- What fenced owners said, once each.
CREATE TABLE refusal (
    seq        INTEGER NOT NULL,
    generation INTEGER NOT NULL,
    session    BLOB NOT NULL,
    operation  TEXT NOT NULL,
    at         INTEGER NOT NULL,
    said       TEXT,
    PRIMARY KEY (seq, generation, session, operation)
) WITHOUT ROWID;

-- One row per transaction and queue: the changed counts, and the ring.
CREATE TABLE outbox (
    n              INTEGER PRIMARY KEY AUTOINCREMENT,
    queue          INTEGER NOT NULL,
    at             INTEGER NOT NULL,
    ring           INTEGER NOT NULL,
    waiting        INTEGER NOT NULL,
    running        INTEGER NOT NULL,
    set_aside      INTEGER NOT NULL,
    succeeded      INTEGER NOT NULL,
    cancelled      INTEGER NOT NULL,
    expired        INTEGER NOT NULL,
    moved_out      INTEGER NOT NULL,
    accepted       INTEGER NOT NULL,
    moved_in       INTEGER NOT NULL,
    attempts       INTEGER NOT NULL,
    ever_set_aside INTEGER NOT NULL,
    ever_cancelled INTEGER NOT NULL,
    ever_expired   INTEGER NOT NULL,
    revived        INTEGER NOT NULL
);

-- The outbox rows that were folded, one row per queue.
CREATE TABLE sums (
    queue          INTEGER PRIMARY KEY,
    waiting        INTEGER NOT NULL,
    running        INTEGER NOT NULL,
    set_aside      INTEGER NOT NULL,
    succeeded      INTEGER NOT NULL,
    cancelled      INTEGER NOT NULL,
    expired        INTEGER NOT NULL,
    moved_out      INTEGER NOT NULL,
    accepted       INTEGER NOT NULL,
    moved_in       INTEGER NOT NULL,
    attempts       INTEGER NOT NULL,
    ever_set_aside INTEGER NOT NULL,
    ever_cancelled INTEGER NOT NULL,
    ever_expired   INTEGER NOT NULL,
    revived        INTEGER NOT NULL
);

-- Queues that move in from other systems: the record as JSON, and how often it
-- was changed.
CREATE TABLE cutover (
    n       INTEGER PRIMARY KEY,
    name    TEXT NOT NULL UNIQUE,
    changes INTEGER NOT NULL,
    doc     TEXT NOT NULL
);

-- Their jobs, each once by the old system's id, and again for each other body
-- that came under that id. missed is 1 of those that the last look at the old
-- system didn't find, 2 of those that are gone. doc is the item; old is the job as the old system had
-- it, while it may have to go back.
CREATE TABLE cutover_item (
    n          INTEGER PRIMARY KEY,
    cutover    TEXT NOT NULL,
    id         TEXT NOT NULL,
    occurrence INTEGER NOT NULL,
    term       TEXT NOT NULL,
    place      INTEGER NOT NULL,
    first      TEXT NOT NULL,
    last       TEXT NOT NULL,
    arrived    INTEGER NOT NULL,
    asked      INTEGER NOT NULL,
    again      INTEGER NOT NULL,
    seen_at    INTEGER NOT NULL,
    missed     INTEGER NOT NULL,
    doc        TEXT NOT NULL,
    old        TEXT,
    UNIQUE (cutover, id, occurrence)
);
CREATE INDEX cutover_item_place ON cutover_item (cutover, term, place);
