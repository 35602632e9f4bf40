"""Random programs over HTTP, as in http_dag_kill, on two shards of two members each: members of the chains, their Redis and masters are killed as well.   ctest: timeout=300

MOBULA_CHAOS_SEEDS=N runs N programs (1), MOBULA_CHAOS_SEED=S begins with S.
"""
import http_dag_kill as dag

SHARDS = ("--postgres", "on", "--gcs-shards", "2")  # of two members each, the default
MEMBERS = ("gcs", "gcs-1", "gcs-s1", "gcs-s1-1", "redis", "redis-1", "redis-s1", "redis-s1-1")
OTHERS = ("master", "master-s1", "gateway", "node", "worker")

if __name__ == "__main__":
    dag.VICTIMS = MEMBERS + OTHERS
    dag.KILLS = 8
    dag.main(*SHARDS, programs=1)
