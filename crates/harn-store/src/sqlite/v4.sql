-- Queues of runs. A limit that is NULL limits nothing.
CREATE TABLE queue (
    name TEXT PRIMARY KEY,
    concurrency INTEGER,
    rate INTEGER,
    rate_ms INTEGER,
    group_concurrency INTEGER,
    group_rate INTEGER,
    group_rate_ms INTEGER
) STRICT, WITHOUT ROWID;
INSERT INTO queue (name) VALUES ('default');

-- The starts of queues with a rate, as long as it needs them.
CREATE TABLE start (
    queue TEXT NOT NULL,
    grp TEXT,
    at_ms INTEGER NOT NULL
) STRICT;
CREATE INDEX start_at ON start (queue, at_ms);

ALTER TABLE run ADD COLUMN queue TEXT NOT NULL DEFAULT 'default';
ALTER TABLE run ADD COLUMN priority INTEGER NOT NULL DEFAULT 0;
ALTER TABLE run ADD COLUMN key TEXT;
ALTER TABLE run ADD COLUMN grp TEXT;
CREATE UNIQUE INDEX run_key ON run (queue, key) WHERE key IS NOT NULL AND ended_ms IS NULL;
-- Runs that wait, in the order in which workers take them: 0 is queued, 2 is suspended.
CREATE INDEX run_ready ON run (queue, priority DESC, due_ms, number) WHERE status IN (0, 2);
