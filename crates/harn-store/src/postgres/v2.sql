-- `failure` is what the last failed try left, `tries` counts the failed tries. `wish` is what a user asks of the process that has
-- the run: 1 to pause it, 2 to cancel it.
ALTER TABLE harn.run
    ADD COLUMN failure BYTEA,
    ADD COLUMN tries BIGINT NOT NULL DEFAULT 0,
    ADD COLUMN wish BIGINT NOT NULL DEFAULT 0;
