--
-- PostgreSQL database dump
--


-- Dumped from database version 15.18 (Debian 15.18-0+deb12u1)
-- Dumped by pg_dump version 15.18 (Debian 15.18-0+deb12u1)

SET statement_timeout = 0;
SET lock_timeout = 0;
SET idle_in_transaction_session_timeout = 0;
SET client_encoding = 'UTF8';
SET standard_conforming_strings = on;
SELECT pg_catalog.set_config('search_path', '', false);
SET check_function_bodies = false;
SET xmloption = content;
SET client_min_messages = warning;
SET row_security = off;

--
-- Name: mobula; Type: SCHEMA; Schema: -; Owner: -
--

CREATE SCHEMA mobula;


--
-- Name: id_range; Type: TYPE; Schema: mobula; Owner: -
--

CREATE TYPE mobula.id_range AS RANGE (
    subtype = bytea,
    multirange_type_name = mobula.id_multirange
);


--
-- Name: filter_has(bytea, bigint, bigint, boolean); Type: FUNCTION; Schema: mobula; Owner: -
--

CREATE FUNCTION mobula.filter_has(filter bytea, a bigint, b bigint, empty boolean) RETURNS boolean
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    AS $$
    SELECT CASE WHEN octet_length(filter) = 0 THEN empty ELSE
        get_bit(filter, a % (octet_length(filter) * 8)) = 1
        AND get_bit(filter, (a + b) % (octet_length(filter) * 8)) = 1
        AND get_bit(filter, (a + 2 * b) % (octet_length(filter) * 8)) = 1
        AND get_bit(filter, (a + 3 * b) % (octet_length(filter) * 8)) = 1 END
$$;


SET default_tablespace = '';

SET default_table_access_method = heap;

--
-- Name: batch; Type: TABLE; Schema: mobula; Owner: -
--

CREATE TABLE mobula.batch (
    shard integer NOT NULL,
    upto bigint NOT NULL,
    after bigint NOT NULL,
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
    committed_at timestamp with time zone DEFAULT now() NOT NULL,
    CONSTRAINT batch_check CHECK ((after < upto))
);


--
-- Name: bucket; Type: TABLE; Schema: mobula; Owner: -
--

CREATE TABLE mobula.bucket (
    shard integer NOT NULL,
    upto bigint NOT NULL,
    row_number integer NOT NULL,
    day integer NOT NULL,
    job bytea,
    ids mobula.id_range NOT NULL,
    seq_min bigint NOT NULL,
    seq_max bigint NOT NULL,
    time_min_us bigint NOT NULL,
    time_max_us bigint NOT NULL,
    longest_us bigint NOT NULL,
    specs integer NOT NULL,
    finals integer NOT NULL,
    failed integer NOT NULL,
    others integer NOT NULL,
    group_filter bytea NOT NULL,
    function_filter bytea NOT NULL,
    payload bytea NOT NULL
)
PARTITION BY RANGE (day);
ALTER TABLE ONLY mobula.bucket ALTER COLUMN payload SET STORAGE EXTERNAL;


--
-- Name: bucket_d20400; Type: TABLE; Schema: mobula; Owner: -
--

CREATE TABLE mobula.bucket_d20400 (
    shard integer NOT NULL,
    upto bigint NOT NULL,
    row_number integer NOT NULL,
    day integer NOT NULL,
    job bytea,
    ids mobula.id_range NOT NULL,
    seq_min bigint NOT NULL,
    seq_max bigint NOT NULL,
    time_min_us bigint NOT NULL,
    time_max_us bigint NOT NULL,
    longest_us bigint NOT NULL,
    specs integer NOT NULL,
    finals integer NOT NULL,
    failed integer NOT NULL,
    others integer NOT NULL,
    group_filter bytea NOT NULL,
    function_filter bytea NOT NULL,
    payload bytea NOT NULL
)
WITH (autovacuum_vacuum_insert_threshold='-1');
ALTER TABLE ONLY mobula.bucket_d20400 ALTER COLUMN payload SET STORAGE EXTERNAL;


--
-- Name: bucket_d20401; Type: TABLE; Schema: mobula; Owner: -
--

CREATE TABLE mobula.bucket_d20401 (
    shard integer NOT NULL,
    upto bigint NOT NULL,
    row_number integer NOT NULL,
    day integer NOT NULL,
    job bytea,
    ids mobula.id_range NOT NULL,
    seq_min bigint NOT NULL,
    seq_max bigint NOT NULL,
    time_min_us bigint NOT NULL,
    time_max_us bigint NOT NULL,
    longest_us bigint NOT NULL,
    specs integer NOT NULL,
    finals integer NOT NULL,
    failed integer NOT NULL,
    others integer NOT NULL,
    group_filter bytea NOT NULL,
    function_filter bytea NOT NULL,
    payload bytea NOT NULL
)
WITH (autovacuum_vacuum_insert_threshold='-1');
ALTER TABLE ONLY mobula.bucket_d20401 ALTER COLUMN payload SET STORAGE EXTERNAL;


--
-- Name: cluster; Type: TABLE; Schema: mobula; Owner: -
--

CREATE TABLE mobula.cluster (
    only_row boolean DEFAULT true NOT NULL,
    id bytea NOT NULL,
    CONSTRAINT cluster_id_check CHECK ((octet_length(id) = 16)),
    CONSTRAINT cluster_only_row_check CHECK (only_row)
);


--
-- Name: failure; Type: TABLE; Schema: mobula; Owner: -
--

CREATE TABLE mobula.failure (
    shard integer NOT NULL,
    upto bigint NOT NULL,
    row_number integer NOT NULL,
    day integer NOT NULL,
    finished_us bigint NOT NULL,
    function bytea,
    job bytea NOT NULL,
    task bytea NOT NULL,
    status smallint NOT NULL,
    seq bigint NOT NULL
)
PARTITION BY RANGE (day);


--
-- Name: failure_d20400; Type: TABLE; Schema: mobula; Owner: -
--

CREATE TABLE mobula.failure_d20400 (
    shard integer NOT NULL,
    upto bigint NOT NULL,
    row_number integer NOT NULL,
    day integer NOT NULL,
    finished_us bigint NOT NULL,
    function bytea,
    job bytea NOT NULL,
    task bytea NOT NULL,
    status smallint NOT NULL,
    seq bigint NOT NULL
)
WITH (autovacuum_vacuum_insert_threshold='-1');


--
-- Name: failure_d20401; Type: TABLE; Schema: mobula; Owner: -
--

CREATE TABLE mobula.failure_d20401 (
    shard integer NOT NULL,
    upto bigint NOT NULL,
    row_number integer NOT NULL,
    day integer NOT NULL,
    finished_us bigint NOT NULL,
    function bytea,
    job bytea NOT NULL,
    task bytea NOT NULL,
    status smallint NOT NULL,
    seq bigint NOT NULL
)
WITH (autovacuum_vacuum_insert_threshold='-1');


--
-- Name: gap; Type: TABLE; Schema: mobula; Owner: -
--

CREATE TABLE mobula.gap (
    shard integer NOT NULL,
    after bigint NOT NULL,
    upto bigint NOT NULL,
    noted_at timestamp with time zone DEFAULT now() NOT NULL
);


--
-- Name: job_day; Type: TABLE; Schema: mobula; Owner: -
--

CREATE TABLE mobula.job_day (
    job bytea NOT NULL,
    day integer NOT NULL
);


--
-- Name: job_gone; Type: TABLE; Schema: mobula; Owner: -
--

CREATE TABLE mobula.job_gone (
    job bytea NOT NULL,
    gone_at timestamp with time zone DEFAULT now() NOT NULL
);


--
-- Name: migration; Type: TABLE; Schema: mobula; Owner: -
--

CREATE TABLE mobula.migration (
    version integer NOT NULL,
    name text NOT NULL,
    digest bytea NOT NULL,
    applied_at timestamp with time zone DEFAULT now() NOT NULL
);


--
-- Name: stream_day; Type: TABLE; Schema: mobula; Owner: -
--

CREATE TABLE mobula.stream_day (
    stream bytea NOT NULL,
    day integer NOT NULL
)
PARTITION BY RANGE (day);


--
-- Name: stream_day_d20400; Type: TABLE; Schema: mobula; Owner: -
--

CREATE TABLE mobula.stream_day_d20400 (
    stream bytea NOT NULL,
    day integer NOT NULL
)
WITH (autovacuum_vacuum_insert_threshold='-1');


--
-- Name: stream_day_d20401; Type: TABLE; Schema: mobula; Owner: -
--

CREATE TABLE mobula.stream_day_d20401 (
    stream bytea NOT NULL,
    day integer NOT NULL
)
WITH (autovacuum_vacuum_insert_threshold='-1');


--
-- Name: watermark; Type: TABLE; Schema: mobula; Owner: -
--

CREATE TABLE mobula.watermark (
    shard integer NOT NULL,
    upto bigint NOT NULL,
    epoch bigint NOT NULL
);


--
-- Name: bucket_d20400; Type: TABLE ATTACH; Schema: mobula; Owner: -
--

ALTER TABLE ONLY mobula.bucket ATTACH PARTITION mobula.bucket_d20400 FOR VALUES FROM (20400) TO (20401);


--
-- Name: bucket_d20401; Type: TABLE ATTACH; Schema: mobula; Owner: -
--

ALTER TABLE ONLY mobula.bucket ATTACH PARTITION mobula.bucket_d20401 FOR VALUES FROM (20401) TO (20402);


--
-- Name: failure_d20400; Type: TABLE ATTACH; Schema: mobula; Owner: -
--

ALTER TABLE ONLY mobula.failure ATTACH PARTITION mobula.failure_d20400 FOR VALUES FROM (20400) TO (20401);


--
-- Name: failure_d20401; Type: TABLE ATTACH; Schema: mobula; Owner: -
--

ALTER TABLE ONLY mobula.failure ATTACH PARTITION mobula.failure_d20401 FOR VALUES FROM (20401) TO (20402);


--
-- Name: stream_day_d20400; Type: TABLE ATTACH; Schema: mobula; Owner: -
--

ALTER TABLE ONLY mobula.stream_day ATTACH PARTITION mobula.stream_day_d20400 FOR VALUES FROM (20400) TO (20401);


--
-- Name: stream_day_d20401; Type: TABLE ATTACH; Schema: mobula; Owner: -
--

ALTER TABLE ONLY mobula.stream_day ATTACH PARTITION mobula.stream_day_d20401 FOR VALUES FROM (20401) TO (20402);


--
-- Data for Name: batch; Type: TABLE DATA; Schema: mobula; Owner: -
--

INSERT INTO mobula.batch VALUES (3, 14, 0, 1, 20400, 20400, 4, 1, 100, 100, 6, 0, 2474, 973, '2026-11-22 20:55:54.881392+00');
INSERT INTO mobula.batch VALUES (3, 26, 14, 1, 20401, 20401, 4, 1, 100, 100, 6, 0, 2491, 1014, '2026-11-22 20:55:54.932312+00');


--
-- Data for Name: bucket_d20400; Type: TABLE DATA; Schema: mobula; Owner: -
--

INSERT INTO mobula.bucket_d20400 VALUES (3, 14, 0, 20400, '\x016a6f620000000000000000', '["\\x010173747265616d0000000000000000","\\x010173747265616d00000000000000ff"]', 5, 14, 1762560000000000, 1762560000000043, 0, 100, 100, 6, 0, '\x0000008007000000', '\x1e00000000000000', '\x4d424b540100180072a9739b9f080000b503000001000000fe140aca0fd0014d424c4b01006700213e78fc700072812c00000037070000c8000000070001001b0913004a016a6f621300a05047fbde751800ca9a3b1800f00764656661756c7400add702c80164640600010107666e1a00040200a10101010173747265616d1200796464318988046614001c413400f61800003244a8e80706132600000b05d08c019003630001bc05020204bc05bc05c23eae0290036102120011c41200115f12004022040200260011c61400115d140002380011c81200175b120011ca12001759120011cc12001757120011ce12001755120011d012001753120011d212001751120011d41200174f120011d61200174d120011d81200174b120011da12001749120011dc12001747120011de12001745120011e012001743120011e212001741120011e41200173f120011e61200173d120011e81200173b120011ea12001739120011ec12001737120011ee12001735120011f012001733120011f212001731120011f41200172f120011f61200172d120011f81200172b120011fa12001729120011fc12001727120011fe12001725120020803f300217231200118212001721120011841200171f120011861200171d120011881200171b1200118a120017191200118c120017171200118e1200171512001190120017131200119212001711120011941200170f120011961200170d120011981200170b1200119a120017091200119c120017071200119e12001705120011a012001703120011a21200110112004022040213500311a414001163140002500311a6120008880311a812000a880311aa140008880311ac120008880311ae120008880311b0120008880311b2120008880311b4120008880311b6120008880311b8120008880311ba120008880311bc120008880311be1200028803501204a9e907010111c01500088b0311c21200088b0311c41200088b0311c61200088b0311c81200088b0311ca1200088b0311cc1200088b0311ce1200088b0311d01200088b0311d21200088b0311d41200088b0311d61200088b0311d81200088b0311da1200088b0311dc1200088b0311de1200088b0311e01200088b0311e21200088b0311e41200088b0311e61200088b0311e81200088b0311ea1200088b0311ec1200088b0311ee1200088b0311f01200088b0311f21200088b0311f41200088b0311f61200088b0311f81200088b0311fa1200088b0311fc1200088b0311fe1200088b032080408704088b0311821200088b0311841200088b0311861200600102070000075f070f02004d2f070668004e500101010101');


--
-- Data for Name: bucket_d20401; Type: TABLE DATA; Schema: mobula; Owner: -
--

INSERT INTO mobula.bucket_d20401 VALUES (3, 26, 0, 20401, '\x026a6f620000000000000000', '["\\x020273747265616d0000000000000000","\\x020273747265616d00000000000000ff"]', 17, 26, 1762646400000035, 1762646400000079, 0, 100, 100, 6, 0, '\x0400020001800000', '\x3c00000000000000', '\x4d424b54010018003a0a73d4af080000de03000001000000fe1422da0fd0014d424c4b010067008c33e9f8c4f3df2c2e00000045070000c800000007000100130913001304080043026a6f620b00030200a09fd88f2d761800ca9a3b1100f00964656661756c74f0a20491d802c8016464060001020e666e1c00040200a10101020273747265616d1200786464318688045b14003cc801423500f61ef0a204c8013244a9e90706131b00f0a2040b0588b105900363c80101bc05020204bc05bc05c23eae0290036102120011c41200115f12004022040200260011c61400115d140002380011c81200175b120011ca12001759120011cc12001757120011ce12001755120011d012001753120011d212001751120011d41200174f120011d61200174d120011d81200174b120011da12001749120011dc12001747120011de12001745120011e012001743120011e212001741120011e41200173f120011e61200173d120011e81200173b120011ea12001739120011ec12001737120011ee12001735120011f012001733120011f212001731120011f41200172f120011f61200112d1200501204a8e807c50111f81500112b150002c50111fa12001729120011fc12001727120011fe12001725120020803f330217231200118212001721120011841200171f120011861200171d120011881200171b1200118a120017191200118c120017171200118e1200171512001190120017131200119212001711120011941200170f120011961200170d120011981200170b1200119a120017091200119c120017071200119e12001705120011a012001703120011a212001101120040220402138e0111a4140011631400028e0111a61200088b0311a812000a8b0311aa1400088b0311ac1200088b0311ae1200088b0311b01200088b0311b21200088b0311b41200088b0311b61200088b0311b81200088b0311ba1200088b0311bc1200088b0311be1200088b0311c01200088b0311c21200088b0311c41200088b0311c61200088b0311c81200088b0311ca1200088b0311cc1200088b0311ce1200088b0311d01200088b0311d21200088b0311d41200088b0311d61200088b0311d81200088b0311da1200028b0302e80111dc120008880311de120008880311e0120008880311e2120008880311e4120008880311e6120008880311e8120008880311ea120008880311ec120008880311ee120008880311f0120008880311f2120008880311f4120008880311f61200028803f6061200298001bce302bce302f83faee10290030f8201760611fa2b00088f0311fc1200088f0311fe1200088f032080408b04088f0311821200088f0311841200088f03118612009f01020700000706000101004e2f070668004e500101010101');


--
-- Data for Name: cluster; Type: TABLE DATA; Schema: mobula; Owner: -
--

INSERT INTO mobula.cluster VALUES (true, '\x07070707070707070707070707070707');


--
-- Data for Name: failure_d20400; Type: TABLE DATA; Schema: mobula; Owner: -
--

INSERT INTO mobula.failure_d20400 VALUES (3, 14, 0, 20400, 1762560000000009, '\x0107666e000000000000000000000000', '\x016a6f620000000000000000', '\x010173747265616d0000000000000000', 19, 8);
INSERT INTO mobula.failure_d20400 VALUES (3, 14, 0, 20400, 1762560000000009, '\x0107666e000000000000000000000000', '\x016a6f620000000000000000', '\x010173747265616d0000000000000001', 19, 8);
INSERT INTO mobula.failure_d20400 VALUES (3, 14, 0, 20400, 1762560000000009, '\x0107666e000000000000000000000000', '\x016a6f620000000000000000', '\x010173747265616d0000000000000002', 19, 8);
INSERT INTO mobula.failure_d20400 VALUES (3, 14, 0, 20400, 1762560000000026, '\x0107666e000000000000000000000000', '\x016a6f620000000000000000', '\x010173747265616d0000000000000032', 19, 14);
INSERT INTO mobula.failure_d20400 VALUES (3, 14, 0, 20400, 1762560000000027, '\x0107666e000000000000000000000000', '\x016a6f620000000000000000', '\x010173747265616d0000000000000033', 19, 14);
INSERT INTO mobula.failure_d20400 VALUES (3, 14, 0, 20400, 1762560000000027, '\x0107666e000000000000000000000000', '\x016a6f620000000000000000', '\x010173747265616d0000000000000034', 19, 14);


--
-- Data for Name: failure_d20401; Type: TABLE DATA; Schema: mobula; Owner: -
--

INSERT INTO mobula.failure_d20401 VALUES (3, 26, 0, 20401, 1762646400000044, '\x020e666e000000000000000000000000', '\x026a6f620000000000000000', '\x020273747265616d0000000000000064', 19, 20);
INSERT INTO mobula.failure_d20401 VALUES (3, 26, 0, 20401, 1762646400000044, '\x020e666e000000000000000000000000', '\x026a6f620000000000000000', '\x020273747265616d0000000000000065', 19, 20);
INSERT INTO mobula.failure_d20401 VALUES (3, 26, 0, 20401, 1762646400000045, '\x020e666e000000000000000000000000', '\x026a6f620000000000000000', '\x020273747265616d0000000000000066', 19, 20);
INSERT INTO mobula.failure_d20401 VALUES (3, 26, 0, 20401, 1762646400000061, '\x020e666e000000000000000000000000', '\x026a6f620000000000000000', '\x020273747265616d0000000000000096', 19, 26);
INSERT INTO mobula.failure_d20401 VALUES (3, 26, 0, 20401, 1762646400000062, '\x020e666e000000000000000000000000', '\x026a6f620000000000000000', '\x020273747265616d0000000000000097', 19, 26);
INSERT INTO mobula.failure_d20401 VALUES (3, 26, 0, 20401, 1762646400000062, '\x020e666e000000000000000000000000', '\x026a6f620000000000000000', '\x020273747265616d0000000000000098', 19, 26);


--
-- Data for Name: gap; Type: TABLE DATA; Schema: mobula; Owner: -
--

INSERT INTO mobula.gap VALUES (3, 1, 3, '2026-11-22 20:55:54.937554+00');


--
-- Data for Name: job_day; Type: TABLE DATA; Schema: mobula; Owner: -
--

INSERT INTO mobula.job_day VALUES ('\x016a6f620000000000000000', 20400);
INSERT INTO mobula.job_day VALUES ('\x026a6f620000000000000000', 20401);


--
-- Data for Name: job_gone; Type: TABLE DATA; Schema: mobula; Owner: -
--

INSERT INTO mobula.job_gone VALUES ('\x09', '2026-11-22 20:55:54.938533+00');


--
-- Data for Name: migration; Type: TABLE DATA; Schema: mobula; Owner: -
--

INSERT INTO mobula.migration VALUES (1, '0001_lineage', '\xd088fe7f32368d2f71c33b92171f792f9a403a53de2003f62808a4e411bf1afd', '2026-11-22 20:55:54.70471+00');


--
-- Data for Name: stream_day_d20400; Type: TABLE DATA; Schema: mobula; Owner: -
--

INSERT INTO mobula.stream_day_d20400 VALUES ('\x010173747265616d00000000', 20400);


--
-- Data for Name: stream_day_d20401; Type: TABLE DATA; Schema: mobula; Owner: -
--

INSERT INTO mobula.stream_day_d20401 VALUES ('\x020273747265616d00000000', 20401);


--
-- Data for Name: watermark; Type: TABLE DATA; Schema: mobula; Owner: -
--

INSERT INTO mobula.watermark VALUES (3, 26, 1);


--
-- Name: batch batch_pkey; Type: CONSTRAINT; Schema: mobula; Owner: -
--

ALTER TABLE ONLY mobula.batch
    ADD CONSTRAINT batch_pkey PRIMARY KEY (shard, upto);


--
-- Name: bucket bucket_pkey; Type: CONSTRAINT; Schema: mobula; Owner: -
--

ALTER TABLE ONLY mobula.bucket
    ADD CONSTRAINT bucket_pkey PRIMARY KEY (shard, upto, row_number, day);


--
-- Name: bucket_d20400 bucket_d20400_pkey; Type: CONSTRAINT; Schema: mobula; Owner: -
--

ALTER TABLE ONLY mobula.bucket_d20400
    ADD CONSTRAINT bucket_d20400_pkey PRIMARY KEY (shard, upto, row_number, day);


--
-- Name: bucket_d20401 bucket_d20401_pkey; Type: CONSTRAINT; Schema: mobula; Owner: -
--

ALTER TABLE ONLY mobula.bucket_d20401
    ADD CONSTRAINT bucket_d20401_pkey PRIMARY KEY (shard, upto, row_number, day);


--
-- Name: cluster cluster_pkey; Type: CONSTRAINT; Schema: mobula; Owner: -
--

ALTER TABLE ONLY mobula.cluster
    ADD CONSTRAINT cluster_pkey PRIMARY KEY (only_row);


--
-- Name: gap gap_pkey; Type: CONSTRAINT; Schema: mobula; Owner: -
--

ALTER TABLE ONLY mobula.gap
    ADD CONSTRAINT gap_pkey PRIMARY KEY (shard, upto);


--
-- Name: job_day job_day_pkey; Type: CONSTRAINT; Schema: mobula; Owner: -
--

ALTER TABLE ONLY mobula.job_day
    ADD CONSTRAINT job_day_pkey PRIMARY KEY (job, day);


--
-- Name: job_gone job_gone_pkey; Type: CONSTRAINT; Schema: mobula; Owner: -
--

ALTER TABLE ONLY mobula.job_gone
    ADD CONSTRAINT job_gone_pkey PRIMARY KEY (job);


--
-- Name: migration migration_pkey; Type: CONSTRAINT; Schema: mobula; Owner: -
--

ALTER TABLE ONLY mobula.migration
    ADD CONSTRAINT migration_pkey PRIMARY KEY (version);


--
-- Name: watermark watermark_pkey; Type: CONSTRAINT; Schema: mobula; Owner: -
--

ALTER TABLE ONLY mobula.watermark
    ADD CONSTRAINT watermark_pkey PRIMARY KEY (shard);


--
-- Name: bucket_ids; Type: INDEX; Schema: mobula; Owner: -
--

CREATE INDEX bucket_ids ON ONLY mobula.bucket USING gist (ids);


--
-- Name: bucket_d20400_ids_idx; Type: INDEX; Schema: mobula; Owner: -
--

CREATE INDEX bucket_d20400_ids_idx ON mobula.bucket_d20400 USING gist (ids);


--
-- Name: bucket_job; Type: INDEX; Schema: mobula; Owner: -
--

CREATE INDEX bucket_job ON ONLY mobula.bucket USING btree (job) WHERE (job IS NOT NULL);


--
-- Name: bucket_d20400_job_idx; Type: INDEX; Schema: mobula; Owner: -
--

CREATE INDEX bucket_d20400_job_idx ON mobula.bucket_d20400 USING btree (job) WHERE (job IS NOT NULL);


--
-- Name: bucket_d20401_ids_idx; Type: INDEX; Schema: mobula; Owner: -
--

CREATE INDEX bucket_d20401_ids_idx ON mobula.bucket_d20401 USING gist (ids);


--
-- Name: bucket_d20401_job_idx; Type: INDEX; Schema: mobula; Owner: -
--

CREATE INDEX bucket_d20401_job_idx ON mobula.bucket_d20401 USING btree (job) WHERE (job IS NOT NULL);


--
-- Name: failure_time; Type: INDEX; Schema: mobula; Owner: -
--

CREATE INDEX failure_time ON ONLY mobula.failure USING btree (finished_us);


--
-- Name: failure_d20400_finished_us_idx; Type: INDEX; Schema: mobula; Owner: -
--

CREATE INDEX failure_d20400_finished_us_idx ON mobula.failure_d20400 USING btree (finished_us);


--
-- Name: failure_function; Type: INDEX; Schema: mobula; Owner: -
--

CREATE INDEX failure_function ON ONLY mobula.failure USING btree (function, finished_us);


--
-- Name: failure_d20400_function_finished_us_idx; Type: INDEX; Schema: mobula; Owner: -
--

CREATE INDEX failure_d20400_function_finished_us_idx ON mobula.failure_d20400 USING btree (function, finished_us);


--
-- Name: failure_job; Type: INDEX; Schema: mobula; Owner: -
--

CREATE INDEX failure_job ON ONLY mobula.failure USING btree (job, finished_us);


--
-- Name: failure_d20400_job_finished_us_idx; Type: INDEX; Schema: mobula; Owner: -
--

CREATE INDEX failure_d20400_job_finished_us_idx ON mobula.failure_d20400 USING btree (job, finished_us);


--
-- Name: failure_d20401_finished_us_idx; Type: INDEX; Schema: mobula; Owner: -
--

CREATE INDEX failure_d20401_finished_us_idx ON mobula.failure_d20401 USING btree (finished_us);


--
-- Name: failure_d20401_function_finished_us_idx; Type: INDEX; Schema: mobula; Owner: -
--

CREATE INDEX failure_d20401_function_finished_us_idx ON mobula.failure_d20401 USING btree (function, finished_us);


--
-- Name: failure_d20401_job_finished_us_idx; Type: INDEX; Schema: mobula; Owner: -
--

CREATE INDEX failure_d20401_job_finished_us_idx ON mobula.failure_d20401 USING btree (job, finished_us);


--
-- Name: stream_day_stream; Type: INDEX; Schema: mobula; Owner: -
--

CREATE INDEX stream_day_stream ON ONLY mobula.stream_day USING btree (stream);


--
-- Name: stream_day_d20400_stream_idx; Type: INDEX; Schema: mobula; Owner: -
--

CREATE INDEX stream_day_d20400_stream_idx ON mobula.stream_day_d20400 USING btree (stream);


--
-- Name: stream_day_d20401_stream_idx; Type: INDEX; Schema: mobula; Owner: -
--

CREATE INDEX stream_day_d20401_stream_idx ON mobula.stream_day_d20401 USING btree (stream);


--
-- Name: bucket_d20400_ids_idx; Type: INDEX ATTACH; Schema: mobula; Owner: -
--

ALTER INDEX mobula.bucket_ids ATTACH PARTITION mobula.bucket_d20400_ids_idx;


--
-- Name: bucket_d20400_job_idx; Type: INDEX ATTACH; Schema: mobula; Owner: -
--

ALTER INDEX mobula.bucket_job ATTACH PARTITION mobula.bucket_d20400_job_idx;


--
-- Name: bucket_d20400_pkey; Type: INDEX ATTACH; Schema: mobula; Owner: -
--

ALTER INDEX mobula.bucket_pkey ATTACH PARTITION mobula.bucket_d20400_pkey;


--
-- Name: bucket_d20401_ids_idx; Type: INDEX ATTACH; Schema: mobula; Owner: -
--

ALTER INDEX mobula.bucket_ids ATTACH PARTITION mobula.bucket_d20401_ids_idx;


--
-- Name: bucket_d20401_job_idx; Type: INDEX ATTACH; Schema: mobula; Owner: -
--

ALTER INDEX mobula.bucket_job ATTACH PARTITION mobula.bucket_d20401_job_idx;


--
-- Name: bucket_d20401_pkey; Type: INDEX ATTACH; Schema: mobula; Owner: -
--

ALTER INDEX mobula.bucket_pkey ATTACH PARTITION mobula.bucket_d20401_pkey;


--
-- Name: failure_d20400_finished_us_idx; Type: INDEX ATTACH; Schema: mobula; Owner: -
--

ALTER INDEX mobula.failure_time ATTACH PARTITION mobula.failure_d20400_finished_us_idx;


--
-- Name: failure_d20400_function_finished_us_idx; Type: INDEX ATTACH; Schema: mobula; Owner: -
--

ALTER INDEX mobula.failure_function ATTACH PARTITION mobula.failure_d20400_function_finished_us_idx;


--
-- Name: failure_d20400_job_finished_us_idx; Type: INDEX ATTACH; Schema: mobula; Owner: -
--

ALTER INDEX mobula.failure_job ATTACH PARTITION mobula.failure_d20400_job_finished_us_idx;


--
-- Name: failure_d20401_finished_us_idx; Type: INDEX ATTACH; Schema: mobula; Owner: -
--

ALTER INDEX mobula.failure_time ATTACH PARTITION mobula.failure_d20401_finished_us_idx;


--
-- Name: failure_d20401_function_finished_us_idx; Type: INDEX ATTACH; Schema: mobula; Owner: -
--

ALTER INDEX mobula.failure_function ATTACH PARTITION mobula.failure_d20401_function_finished_us_idx;


--
-- Name: failure_d20401_job_finished_us_idx; Type: INDEX ATTACH; Schema: mobula; Owner: -
--

ALTER INDEX mobula.failure_job ATTACH PARTITION mobula.failure_d20401_job_finished_us_idx;


--
-- Name: stream_day_d20400_stream_idx; Type: INDEX ATTACH; Schema: mobula; Owner: -
--

ALTER INDEX mobula.stream_day_stream ATTACH PARTITION mobula.stream_day_d20400_stream_idx;


--
-- Name: stream_day_d20401_stream_idx; Type: INDEX ATTACH; Schema: mobula; Owner: -
--

ALTER INDEX mobula.stream_day_stream ATTACH PARTITION mobula.stream_day_d20401_stream_idx;


--
-- PostgreSQL database dump complete
--


