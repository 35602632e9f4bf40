/* The checker of histories, as in history_boxes.c. */
#include "tests/sim/lincheck.c" /* NOLINT(bugprone-suspicious-include) */
