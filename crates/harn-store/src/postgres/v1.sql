-- Who writes, and how many groups of writes it has committed: so it finds out what became of a commit without an answer.
CREATE TABLE harn.writer (
    id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    number BIGINT NOT NULL DEFAULT 0,
    seen TIMESTAMPTZ NOT NULL DEFAULT now()
) WITH (fillfactor = 50);

-- Counts the writes of values, so that no version is ever used twice.
CREATE SEQUENCE harn.revision;

-- Names are compared as bytes, whatever the language of the database.
CREATE TABLE harn.lease (
    scope TEXT COLLATE "C" PRIMARY KEY,
    owner TEXT NOT NULL,
    epoch BIGINT NOT NULL,
    until_ms BIGINT NOT NULL
) WITH (fillfactor = 70);

CREATE TABLE harn.kv (
    space TEXT COLLATE "C" NOT NULL,
    key TEXT COLLATE "C" NOT NULL,
    version BIGINT NOT NULL,
    value BYTEA NOT NULL,
    PRIMARY KEY (space, key)
);

CREATE TABLE harn.topic (
    id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name TEXT COLLATE "C" NOT NULL UNIQUE,
    last BIGINT NOT NULL
) WITH (fillfactor = 70);

CREATE TABLE harn.event (
    topic BIGINT NOT NULL,
    id BIGINT NOT NULL,
    kind TEXT NOT NULL,
    payload BYTEA NOT NULL,
    headers TEXT NOT NULL,
    at_ms BIGINT NOT NULL,
    PRIMARY KEY (topic, id)
);

-- A message is claimed when `claimed` and `ready_ms` lies ahead; then it comes back at `ready_ms`.
-- Texts of which nothing says that they hold no NUL are bytes: a text of PostgreSQL cannot hold one.
CREATE TABLE harn.message (
    number BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    queue TEXT COLLATE "C" NOT NULL,
    id TEXT COLLATE "C" NOT NULL,
    body BYTEA NOT NULL,
    ready_ms BIGINT NOT NULL,
    attempts BIGINT NOT NULL DEFAULT 0,
    max_attempts BIGINT NOT NULL,
    claimed BOOLEAN NOT NULL DEFAULT false,
    dead BOOLEAN NOT NULL DEFAULT false,
    reason BYTEA NOT NULL DEFAULT '',
    UNIQUE (queue, id)
);
CREATE INDEX message_due ON harn.message (queue, dead, ready_ms, number);

CREATE TABLE harn.session (
    number BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    id TEXT COLLATE "C" NOT NULL UNIQUE,
    scope TEXT COLLATE "C" NOT NULL,
    status TEXT COLLATE "C" NOT NULL,
    info BYTEA NOT NULL,
    length BIGINT NOT NULL,
    created_ms BIGINT NOT NULL,
    updated_ms BIGINT NOT NULL
);
CREATE INDEX session_status ON harn.session (status, id);

CREATE TABLE harn.entry (
    session BIGINT NOT NULL REFERENCES harn.session (number) ON DELETE CASCADE,
    n BIGINT NOT NULL,
    body BYTEA NOT NULL,
    PRIMARY KEY (session, n)
);

CREATE TABLE harn.blob (
    digest BYTEA PRIMARY KEY,
    bytes BYTEA NOT NULL
);

CREATE TABLE harn.run (
    number BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    id TEXT COLLATE "C" NOT NULL UNIQUE,
    program TEXT NOT NULL,
    args TEXT NOT NULL,
    status BIGINT NOT NULL,
    due_ms BIGINT,
    exit_code INTEGER,
    note BYTEA NOT NULL,
    info BYTEA NOT NULL,
    parent TEXT,
    parent_length BIGINT,
    length BIGINT NOT NULL DEFAULT 0,
    effects BIGINT NOT NULL DEFAULT 0,
    answers BIGINT NOT NULL DEFAULT 0,
    starts BIGINT NOT NULL DEFAULT 0,
    created_ms BIGINT NOT NULL,
    started_ms BIGINT,
    updated_ms BIGINT NOT NULL,
    ended_ms BIGINT
) WITH (fillfactor = 70);
CREATE INDEX run_due ON harn.run (status, due_ms, number);

-- Each entry has a checksum: a resumed run must not follow a changed byte, and a server checks its pages only when told to.
-- A large payload is in `shared`, under `digest_of_payload`.
CREATE TABLE harn.journal (
    run BIGINT NOT NULL,
    seq BIGINT NOT NULL,
    task TEXT NOT NULL,
    count BIGINT NOT NULL,
    kind BIGINT NOT NULL,
    name TEXT NOT NULL,
    place TEXT NOT NULL,
    digest BYTEA NOT NULL,
    at_ms BIGINT NOT NULL,
    payload BYTEA,
    digest_of_payload BYTEA,
    checksum BIGINT NOT NULL,
    PRIMARY KEY (run, seq)
);

CREATE TABLE harn.source (
    run BIGINT NOT NULL,
    path TEXT COLLATE "C" NOT NULL,
    digest BYTEA NOT NULL
);
-- A path may be longer than what an index takes.
CREATE INDEX source_run ON harn.source (run);

-- Sources and large payloads, once each; `refs` counts the rows that name them.
CREATE TABLE harn.shared (
    digest BYTEA PRIMARY KEY,
    refs BIGINT NOT NULL,
    bytes BYTEA NOT NULL
);

CREATE TABLE harn.waitpoint (
    number BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    run BIGINT NOT NULL,
    request_id TEXT COLLATE "C" NOT NULL,
    kind TEXT NOT NULL,
    prompt TEXT NOT NULL,
    info BYTEA NOT NULL,
    asked_ms BIGINT NOT NULL,
    due_ms BIGINT,
    quorum BIGINT NOT NULL,
    closed_ms BIGINT,
    UNIQUE (run, request_id)
);
CREATE INDEX waitpoint_open ON harn.waitpoint (closed_ms, number);

CREATE TABLE harn.answer (
    number BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    waitpoint BIGINT NOT NULL,
    value BYTEA NOT NULL,
    person TEXT COLLATE "C" NOT NULL,
    at_ms BIGINT NOT NULL,
    signature TEXT NOT NULL,
    UNIQUE (waitpoint, person)
);
