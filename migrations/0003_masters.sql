-- One active master for each shard's chain: a row for each. What was there is the first shard's.
ALTER TABLE mobula.master DROP COLUMN only_row;
ALTER TABLE mobula.master ADD COLUMN shard integer NOT NULL DEFAULT 0;
ALTER TABLE mobula.master ALTER COLUMN shard DROP DEFAULT;
ALTER TABLE mobula.master ADD PRIMARY KEY (shard);
