-- Who is master, and the configurations of the chains (GCS.md "Master").

-- The active master's lease: a standby takes over when it has not changed for 3 s of its own clock.
CREATE TABLE mobula.master (
    only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row),
    term bigint NOT NULL,
    beat bigint NOT NULL
);
INSERT INTO mobula.master (term, beat) VALUES (0, 0);

-- Rows are only inserted; the primary key is the compare-and-set that makes each epoch one configuration.
CREATE TABLE mobula.chain_epoch (
    shard integer NOT NULL,
    epoch bigint NOT NULL CHECK (epoch > 0),
    term bigint NOT NULL,
    start boolean NOT NULL, -- everything had died: the only member collects first
    members bytea NOT NULL CHECK (octet_length(members) BETWEEN 8 AND 56 AND octet_length(members) % 8 = 0),
    made_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (shard, epoch)
);
