CREATE TABLE run (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL UNIQUE,
    program TEXT NOT NULL,
    args TEXT NOT NULL,
    status INTEGER NOT NULL,
    due_ms INTEGER,
    exit_code INTEGER,
    note TEXT NOT NULL,
    info BLOB NOT NULL,
    parent TEXT,
    parent_length INTEGER,
    length INTEGER NOT NULL DEFAULT 0,
    effects INTEGER NOT NULL DEFAULT 0,
    answers INTEGER NOT NULL DEFAULT 0,
    starts INTEGER NOT NULL DEFAULT 0,
    created_ms INTEGER NOT NULL,
    started_ms INTEGER,
    updated_ms INTEGER NOT NULL,
    ended_ms INTEGER
) STRICT;
CREATE INDEX run_due ON run (status, due_ms, number);

-- The key is the number of the run, times 2^32, plus the number of the entry: one tree, in the order of reading.
-- The file has no checksums of its own, and a resumed run must not follow a changed byte: each entry has one.
-- A large payload is in `shared`, under `digest_of_payload`.
CREATE TABLE journal (
    key INTEGER PRIMARY KEY,
    task TEXT NOT NULL,
    count INTEGER NOT NULL,
    kind INTEGER NOT NULL,
    name TEXT NOT NULL,
    place TEXT NOT NULL,
    digest BLOB NOT NULL,
    at_ms INTEGER NOT NULL,
    payload BLOB,
    digest_of_payload BLOB,
    checksum INTEGER NOT NULL
) STRICT;

CREATE TABLE source (
    run INTEGER NOT NULL,
    path TEXT NOT NULL,
    digest BLOB NOT NULL,
    PRIMARY KEY (run, path)
) STRICT, WITHOUT ROWID;

-- Sources and large payloads, once each; `refs` counts the rows that name them.
CREATE TABLE shared (
    digest BLOB NOT NULL UNIQUE,
    refs INTEGER NOT NULL,
    bytes BLOB NOT NULL
) STRICT;

CREATE TABLE waitpoint (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    run INTEGER NOT NULL,
    request_id TEXT NOT NULL,
    kind TEXT NOT NULL,
    prompt TEXT NOT NULL,
    info BLOB NOT NULL,
    asked_ms INTEGER NOT NULL,
    due_ms INTEGER,
    quorum INTEGER NOT NULL,
    closed_ms INTEGER,
    UNIQUE (run, request_id)
) STRICT;
CREATE INDEX waitpoint_open ON waitpoint (closed_ms, number);

CREATE TABLE answer (
    number INTEGER PRIMARY KEY,
    waitpoint INTEGER NOT NULL,
    value BLOB NOT NULL,
    by TEXT NOT NULL,
    at_ms INTEGER NOT NULL,
    signature TEXT NOT NULL,
    UNIQUE (waitpoint, by)
) STRICT;
