-- One row: counts the writes of values, so that no version is ever used twice.
CREATE TABLE revision (n INTEGER NOT NULL) STRICT;
INSERT INTO revision VALUES (0);

CREATE TABLE lease (
    scope TEXT PRIMARY KEY,
    owner TEXT NOT NULL,
    epoch INTEGER NOT NULL,
    until_ms INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE kv (
    space TEXT NOT NULL,
    key TEXT NOT NULL,
    version INTEGER NOT NULL,
    value BLOB NOT NULL,
    UNIQUE (space, key)
) STRICT;

CREATE TABLE topic (
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    last INTEGER NOT NULL
) STRICT;

CREATE TABLE event (
    topic INTEGER NOT NULL,
    id INTEGER NOT NULL,
    kind TEXT NOT NULL,
    payload BLOB NOT NULL,
    headers TEXT NOT NULL,
    at_ms INTEGER NOT NULL,
    UNIQUE (topic, id)
) STRICT;

-- A message is claimed when `claimed` is 1 and `ready_ms` lies ahead; then it comes back at `ready_ms`.
CREATE TABLE message (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    queue TEXT NOT NULL,
    id TEXT NOT NULL,
    body BLOB NOT NULL,
    ready_ms INTEGER NOT NULL,
    attempts INTEGER NOT NULL DEFAULT 0,
    max_attempts INTEGER NOT NULL,
    claimed INTEGER NOT NULL DEFAULT 0,
    dead INTEGER NOT NULL DEFAULT 0,
    reason TEXT NOT NULL DEFAULT '',
    UNIQUE (queue, id)
) STRICT;
CREATE INDEX message_due ON message (queue, dead, ready_ms, number);

CREATE TABLE record (
    number INTEGER PRIMARY KEY,
    kind INTEGER NOT NULL,
    id TEXT NOT NULL,
    scope TEXT NOT NULL,
    status TEXT NOT NULL,
    info BLOB NOT NULL,
    length INTEGER NOT NULL,
    created_ms INTEGER NOT NULL,
    updated_ms INTEGER NOT NULL,
    UNIQUE (kind, id)
) STRICT;
CREATE INDEX record_status ON record (kind, status, id);

CREATE TABLE entry (
    record INTEGER NOT NULL REFERENCES record (number) ON DELETE CASCADE,
    n INTEGER NOT NULL,
    body BLOB NOT NULL,
    UNIQUE (record, n)
) STRICT;

CREATE TABLE blob (
    digest BLOB NOT NULL UNIQUE,
    bytes BLOB NOT NULL
) STRICT;
