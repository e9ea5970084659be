-- `failure` is what the last failed try left, `tries` counts the failed tries. `wish` is what a user asks of the process that has
-- the run: 1 to pause it, 2 to cancel it.
ALTER TABLE run ADD COLUMN failure BLOB;
ALTER TABLE run ADD COLUMN tries INTEGER NOT NULL DEFAULT 0;
ALTER TABLE run ADD COLUMN wish INTEGER NOT NULL DEFAULT 0;
