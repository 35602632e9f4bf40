-- What batches have lost, exactly, so that whatever else is missing is missed: rows of jobs that were deleted, and those of a dropped
-- day whose batch has others.
CREATE TABLE mobula.deleted (
    shard integer NOT NULL,
    upto bigint NOT NULL, -- of the batch, with which it goes
    day integer NOT NULL,
    buckets bigint NOT NULL,
    specs bigint NOT NULL,
    finals bigint NOT NULL,
    failed bigint NOT NULL,
    others bigint NOT NULL,
    failures bigint NOT NULL, -- rows of mobula.failure, also of jobs whose buckets are shared
    PRIMARY KEY (shard, upto, day)
);
-- Of batches that are here: what is missing by now, where anything may have been deleted.
WITH b AS (
    SELECT shard, upto, count(*) AS buckets, sum(specs)::bigint AS specs, sum(finals)::bigint AS finals, sum(failed)::bigint AS failed,
        sum(others)::bigint AS others
    FROM mobula.bucket WHERE day < 2000000 GROUP BY shard, upto
), f AS (
    SELECT shard, upto, count(*) AS failures FROM mobula.failure GROUP BY shard, upto
)
INSERT INTO mobula.deleted
SELECT t.shard, t.upto, t.day_max, t.buckets - coalesce(b.buckets, 0), t.specs - coalesce(b.specs, 0),
    t.finals - coalesce(b.finals, 0), t.failed - coalesce(b.failed, 0), t.others - coalesce(b.others, 0),
    t.failed - coalesce(f.failures, 0)
FROM mobula.batch t LEFT JOIN b USING (shard, upto) LEFT JOIN f USING (shard, upto)
WHERE (t.buckets, t.failed) <> (coalesce(b.buckets, 0), coalesce(f.failures, 0))
    AND (t.day_min < t.day_max OR (EXISTS (SELECT FROM mobula.job_gone)
        AND to_regclass('mobula.bucket_d' || replace(t.day_min::text, '-', 'm')) IS NOT NULL));

-- On which days a deleted job may still have something, in rows that it shares with others; and which jobs may have something in the
-- shared rows that are kept for actors. A job that has neither, nor a row in mobula.job_day, is forgotten.
CREATE TABLE mobula.job_gone_day (
    job bytea NOT NULL,
    day integer NOT NULL,
    PRIMARY KEY (job, day)
);
CREATE TABLE mobula.job_copied (
    job bytea PRIMARY KEY
);
INSERT INTO mobula.job_gone_day SELECT g.job, d.day FROM mobula.job_gone g, (SELECT DISTINCT day FROM mobula.job_day) d;
INSERT INTO mobula.job_copied SELECT job FROM (SELECT job FROM mobula.job_gone UNION SELECT job FROM mobula.job_day)
    j WHERE to_regclass('mobula.bucket_d2000000') IS NOT NULL;

-- Changes with mobula.job_gone, so that readers see by one row that it has not changed.
CREATE TABLE mobula.job_gone_version (
    only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row),
    version bigint NOT NULL
);
INSERT INTO mobula.job_gone_version (version) VALUES (1);
CREATE FUNCTION mobula.job_gone_changed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE mobula.job_gone_version SET version = version + 1 WHERE EXISTS (SELECT FROM changed);
    RETURN NULL;
END
$$;
CREATE TRIGGER job_gone_inserted AFTER INSERT ON mobula.job_gone REFERENCING NEW TABLE AS changed
    FOR EACH STATEMENT EXECUTE FUNCTION mobula.job_gone_changed();
CREATE TRIGGER job_gone_deleted AFTER DELETE ON mobula.job_gone REFERENCING OLD TABLE AS changed
    FOR EACH STATEMENT EXECUTE FUNCTION mobula.job_gone_changed();
