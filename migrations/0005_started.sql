-- Each configuration says which one the chain was last started with after everything had died (0: none): who missed that
-- one hears of it from any later one. Of those that are here it follows from the ones before.
ALTER TABLE mobula.chain_epoch ADD COLUMN started bigint;
UPDATE mobula.chain_epoch c SET started = coalesce(
    (SELECT max(b.epoch) FROM mobula.chain_epoch b WHERE b.shard = c.shard AND b.epoch <= c.epoch AND b.start), 0);
ALTER TABLE mobula.chain_epoch ALTER COLUMN started SET NOT NULL;
ALTER TABLE mobula.chain_epoch ADD CHECK (started BETWEEN 0 AND epoch AND start = (started = epoch));
