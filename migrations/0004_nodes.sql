-- Liveness of nodes (GCS.md "Node logs and the cut"): where each has its home, and the log of each incarnation.

-- A node keeps its home shard over its lives. Rows are only inserted.
CREATE TABLE mobula.node_home (
    node text PRIMARY KEY,
    shard integer NOT NULL
);

-- state: 1 live, 2 declared dead and being sealed, 3 sealed at `cut` blocks. It only grows, by compare-and-set
-- under the present master's term.
CREATE TABLE mobula.node_log (
    shard integer NOT NULL,
    incarnation bigint NOT NULL,
    node text NOT NULL,
    start bigint NOT NULL, -- which start of the node's process it was given to
    pid bigint NOT NULL,
    state smallint NOT NULL CHECK (state BETWEEN 1 AND 3),
    cut bigint CHECK ((state = 3) = (cut IS NOT NULL)),
    term bigint NOT NULL, -- of the master that changed it last
    changed_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (shard, incarnation)
);
-- No two incarnations of one node are live, whatever masters do.
CREATE UNIQUE INDEX node_log_live ON mobula.node_log (node) WHERE state < 3;
