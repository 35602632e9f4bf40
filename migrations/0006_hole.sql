-- Where rows of deleted jobs were, of each batch and day in one: who follows the log is told that something is gone there. They go with
-- their day.
CREATE TABLE mobula.hole (
    shard integer NOT NULL,
    upto bigint NOT NULL, -- as the rows' own
    job bytea NOT NULL,
    day integer NOT NULL,
    seq_min bigint NOT NULL,
    seq_max bigint NOT NULL,
    PRIMARY KEY (shard, upto, job, day)
);
