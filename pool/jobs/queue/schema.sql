-- The job queue of one schedd. A cluster's ad is stored once; a job's row holds only what differs from it.

CREATE TABLE counters (
    name  TEXT PRIMARY KEY,
    value INTEGER NOT NULL
) WITHOUT ROWID;

CREATE TABLE clusters (
    cluster INTEGER PRIMARY KEY,
    live    INTEGER NOT NULL,  -- 0: no job of it is in the queue; kept for the history's rows
    user    TEXT NOT NULL,     -- submitter, user@domain
    owner   TEXT NOT NULL,
    procs   INTEGER NOT NULL,  -- how many jobs were made so far: the next ProcId
    ad      TEXT NOT NULL
);

CREATE TABLE jobs (
    cluster INTEGER NOT NULL,
    proc    INTEGER NOT NULL,
    status  INTEGER NOT NULL,
    prio    INTEGER NOT NULL,
    ad      TEXT NOT NULL,
    PRIMARY KEY (cluster, proc)
) WITHOUT ROWID;

-- Log events that are decided, and may or may not have been written: a row goes when the file has it.
CREATE TABLE events (
    seq   INTEGER PRIMARY KEY,
    owner TEXT NOT NULL,
    log   TEXT NOT NULL,
    text  TEXT NOT NULL
);

-- Slots that this schedd holds, and what each runs: enough to come back to running jobs after a restart.
CREATE TABLE claims (
    claim_id   TEXT PRIMARY KEY,
    startd     TEXT NOT NULL,
    submitter  TEXT NOT NULL,
    owner      TEXT NOT NULL,
    slot_ad    TEXT NOT NULL,
    ticket     TEXT NOT NULL,
    lease_s    REAL NOT NULL,
    alive_s    REAL NOT NULL,
    renewed_at REAL NOT NULL,  -- wall clock
    cluster    INTEGER,        -- the job that it runs, and its execution's name
    proc       INTEGER,
    activation TEXT NOT NULL
) WITHOUT ROWID;

CREATE TABLE history (
    seq     INTEGER PRIMARY KEY AUTOINCREMENT,
    cluster INTEGER NOT NULL,
    proc    INTEGER NOT NULL,
    owner   TEXT NOT NULL,
    status  INTEGER NOT NULL,
    left_at REAL NOT NULL,
    ad      TEXT NOT NULL
);

CREATE INDEX history_by_job ON history (cluster, proc);
