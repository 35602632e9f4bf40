"""The memory cap of a chain of two: what memory_cap.py fills it with, and what each of the members holds.
MOBULA_CHAOS_SEED and MOBULA_CHAOS_SEEDS as there."""
import shutil
import sys

from memory_cap import HARD, SOFT, test_a_cap_full_of_unfinished_tasks  # noqa: F401  pylint: disable=unused-import
from lib_http_cluster import main

if __name__ == "__main__":
    if not shutil.which("psql"):
        print("there is no PostgreSQL here: skipped")
        sys.exit(0)
    main(globals(), "--postgres", "on", "--gcs-replicas", "2", "--flush-delay-ms", "200", "--flush-batch-bytes", "1MiB", "--gcs-soft-bytes", SOFT, "--gcs-hard-bytes", HARD)
