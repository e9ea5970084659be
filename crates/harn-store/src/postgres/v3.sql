-- Queues of runs. A limit that is NULL limits nothing.
CREATE TABLE harn.queue (
    name TEXT COLLATE "C" PRIMARY KEY,
    concurrency BIGINT,
    rate BIGINT,
    rate_ms BIGINT,
    group_concurrency BIGINT,
    group_rate BIGINT,
    group_rate_ms BIGINT
);
INSERT INTO harn.queue (name) VALUES ('default');

-- The starts of queues with a rate, as long as it needs them.
CREATE TABLE harn.start (
    queue TEXT COLLATE "C" NOT NULL,
    grp TEXT COLLATE "C",
    at_ms BIGINT NOT NULL
);
CREATE INDEX start_at ON harn.start (queue, at_ms);

ALTER TABLE harn.run
    ADD COLUMN queue TEXT COLLATE "C" NOT NULL DEFAULT 'default',
    ADD COLUMN priority INTEGER NOT NULL DEFAULT 0,
    ADD COLUMN key TEXT COLLATE "C",
    ADD COLUMN grp TEXT COLLATE "C";
CREATE UNIQUE INDEX run_key ON harn.run (queue, key) WHERE key IS NOT NULL AND ended_ms IS NULL;
-- Runs that wait, in the order in which workers take them: 0 is queued, 2 is suspended.
CREATE INDEX run_ready ON harn.run (queue, priority DESC, due_ms, number) WHERE status IN (0, 2);
