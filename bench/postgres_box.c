/* A PostgreSQL of a bench's own, as in boxes.c. */
#include "tests/support/pg_box.c" /* NOLINT(bugprone-suspicious-include) */
