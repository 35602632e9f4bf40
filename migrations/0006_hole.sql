-- Where rows of deleted jobs were: who reads the log in its order is told that something is gone there. They go with their day.
CREATE TABLE mobula.hole (
    shard integer NOT NULL,
    upto bigint NOT NULL, -- as the row's own
    row_number integer NOT NULL,
    day integer NOT NULL,
    job bytea NOT NULL,
    seq_min bigint NOT NULL,
    seq_max bigint NOT NULL,
    PRIMARY KEY (shard, upto, row_number, day)
);
