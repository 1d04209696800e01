-- Names come from outside and are long; inside, everything points at small numbers. Numbers of threads, runs and signals are
-- never used twice (AUTOINCREMENT): rows of a deleted run may wait to be swept, and a late `accept` must not hit a new signal.

CREATE TABLE threads (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    name TEXT NOT NULL UNIQUE,
    title TEXT NOT NULL,
    messages INTEGER NOT NULL,
    created_ms INTEGER NOT NULL,
    updated_ms INTEGER NOT NULL,
    -- The newest one given out. It outlives the lease.
    fence INTEGER NOT NULL
) STRICT;
CREATE INDEX threads_by_use ON threads (updated_ms, id);

-- Renewing is one row, however many threads an owner holds.
CREATE TABLE owners (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    name TEXT NOT NULL UNIQUE,
    until_ms INTEGER NOT NULL
) STRICT;

-- A row is here while a thread is held.
CREATE TABLE leases (
    thread INTEGER PRIMARY KEY,
    owner INTEGER NOT NULL
) STRICT;

-- One row: threads made from now on start above it, so that one deleted and made again never repeats a fence.
CREATE TABLE fences (floor INTEGER NOT NULL) STRICT;
INSERT INTO fences VALUES (0);

CREATE TABLE runs (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    name TEXT NOT NULL UNIQUE,
    thread INTEGER NOT NULL,
    flow TEXT NOT NULL,
    parent TEXT,
    title TEXT NOT NULL,
    status TEXT NOT NULL,
    outcome TEXT,
    created_ms INTEGER NOT NULL,
    updated_ms INTEGER NOT NULL
) STRICT;
CREATE INDEX runs_by_thread ON runs (thread);
CREATE INDEX runs_by_status ON runs (status);

-- Appended in the order of arrival. Clustered by run, a thousand runs at once would write a page each.
CREATE TABLE journal (
    id INTEGER PRIMARY KEY,
    run INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    at_ms INTEGER NOT NULL,
    bytes BLOB NOT NULL
) STRICT;
CREATE UNIQUE INDEX journal_by_run ON journal (run, seq);

CREATE TABLE snapshots (
    run INTEGER PRIMARY KEY,
    entries INTEGER NOT NULL,
    bytes BLOB NOT NULL
) STRICT;

CREATE TABLE intents (
    run INTEGER NOT NULL,
    step INTEGER NOT NULL,
    place INTEGER NOT NULL,
    attempt INTEGER NOT NULL,
    key TEXT NOT NULL,
    PRIMARY KEY (run, step, place)
) STRICT, WITHOUT ROWID;

CREATE TABLE messages (
    id INTEGER PRIMARY KEY,
    thread INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    run INTEGER NOT NULL,
    role TEXT NOT NULL,
    content TEXT NOT NULL,
    created_ms INTEGER NOT NULL
) STRICT;
CREATE UNIQUE INDEX messages_by_thread ON messages (thread, seq);

CREATE TABLE signals (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    run INTEGER NOT NULL,
    kind TEXT NOT NULL
) STRICT;

-- What was deleted and still has rows elsewhere. A deletion is one small moment; the sweeping takes many, and goes on after a crash.
CREATE TABLE swept_threads (thread INTEGER PRIMARY KEY) STRICT;
CREATE TABLE swept_runs (run INTEGER PRIMARY KEY) STRICT;
