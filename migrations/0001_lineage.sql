-- Lineage that left the members' memory (GCS.md "Flushing"). Written by the flusher of each shard, in one transaction a batch,
-- rows are only inserted; they go with their day's partition, or with their job.

-- Whose lineage this is: a data directory that came from elsewhere is refused.
CREATE TABLE mobula.cluster (
    only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row),
    id bytea NOT NULL CHECK (octet_length(id) = 16)
);

-- Up to where each shard's blocks are here. Moved by compare-and-set in the transaction that inserts them, so a flusher that was
-- overtaken inserts nothing.
CREATE TABLE mobula.watermark (
    shard integer PRIMARY KEY,
    upto bigint NOT NULL,
    epoch bigint NOT NULL
);

-- What a batch took in: blocks behind `after` up to `upto`, and what their zone maps said, to check the rows against.
CREATE TABLE mobula.batch (
    shard integer NOT NULL,
    upto bigint NOT NULL,
    after bigint NOT NULL CHECK (after < upto),
    epoch bigint NOT NULL,
    day_min integer NOT NULL,
    day_max integer NOT NULL,
    blocks integer NOT NULL,
    buckets integer NOT NULL,
    specs bigint NOT NULL,
    finals bigint NOT NULL,
    failed bigint NOT NULL,
    others bigint NOT NULL,
    block_bytes bigint NOT NULL,
    payload_bytes bigint NOT NULL,
    committed_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (shard, upto)
);

-- Commit positions of which nothing is known here, though the members were told that it is: the data directory is older than
-- they are, or was lost.
CREATE TABLE mobula.gap (
    shard integer NOT NULL,
    after bigint NOT NULL,
    upto bigint NOT NULL,
    noted_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (shard, upto)
);

CREATE TYPE mobula.id_range AS RANGE (subtype = bytea);

-- Is a member with the hash (a, b) perhaps in the Bloom filter (common/wire/bloom.h)? Without bytes: `empty`.
CREATE FUNCTION mobula.filter_has(filter bytea, a bigint, b bigint, empty boolean) RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE WHEN octet_length(filter) = 0 THEN empty ELSE
        get_bit(filter, a % (octet_length(filter) * 8)) = 1
        AND get_bit(filter, (a + b) % (octet_length(filter) * 8)) = 1
        AND get_bit(filter, (a + 2 * b) % (octet_length(filter) * 8)) = 1
        AND get_bit(filter, (a + 3 * b) % (octet_length(filter) * 8)) = 1 END
$$;

-- Buckets of entries, sorted by task id (common/wire/bucket.h). Day: since 1970-01-01 UTC, by the clock of the node that logged.
CREATE TABLE mobula.bucket (
    shard integer NOT NULL,
    upto bigint NOT NULL, -- of the batch
    row_number integer NOT NULL, -- in the batch
    day integer NOT NULL,
    job bytea, -- NULL: small jobs share it
    ids mobula.id_range NOT NULL, -- whole groups of 256; empty: only what belongs to no task
    seq_min bigint NOT NULL,
    seq_max bigint NOT NULL,
    time_min_us bigint NOT NULL,
    time_max_us bigint NOT NULL,
    longest_us bigint NOT NULL,
    specs integer NOT NULL,
    finals integer NOT NULL,
    failed integer NOT NULL,
    others integer NOT NULL,
    group_filter bytea NOT NULL, -- Bloom filters (common/wire/bloom.h)
    function_filter bytea NOT NULL, -- no bytes: any
    payload bytea NOT NULL,
    PRIMARY KEY (shard, upto, row_number, day)
) PARTITION BY RANGE (day);
ALTER TABLE mobula.bucket ALTER COLUMN payload SET STORAGE EXTERNAL; -- it is compressed
CREATE INDEX bucket_ids ON mobula.bucket USING gist (ids);
CREATE INDEX bucket_job ON mobula.bucket (job) WHERE job IS NOT NULL;

-- On which days a stream has tasks, so that a look-up by id goes to one partition. A stream may be there twice.
CREATE TABLE mobula.stream_day (
    stream bytea NOT NULL,
    day integer NOT NULL
) PARTITION BY RANGE (day);
CREATE INDEX stream_day_stream ON mobula.stream_day (stream);

-- Tasks that did not end well, one by one.
CREATE TABLE mobula.failure (
    shard integer NOT NULL,
    upto bigint NOT NULL, -- the bucket with its completion
    row_number integer NOT NULL,
    day integer NOT NULL,
    finished_us bigint NOT NULL,
    function bytea, -- NULL: its spec was not found
    job bytea NOT NULL,
    task bytea NOT NULL,
    status smallint NOT NULL,
    seq bigint NOT NULL -- of the block of its completion
) PARTITION BY RANGE (day);
CREATE INDEX failure_function ON mobula.failure (function, finished_us);
CREATE INDEX failure_job ON mobula.failure (job, finished_us);
CREATE INDEX failure_time ON mobula.failure (finished_us);

CREATE TABLE mobula.job_day (
    job bytea NOT NULL,
    day integer NOT NULL,
    PRIMARY KEY (job, day)
);

-- Jobs that were deleted: their own buckets are gone, of shared ones their blocks are not given any more.
CREATE TABLE mobula.job_gone (
    job bytea PRIMARY KEY,
    gone_at timestamptz NOT NULL DEFAULT now()
);
