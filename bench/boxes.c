/* Control stores of a bench's own: benches link no test library. */
#include "tests/support/gcs_box.c" /* NOLINT(bugprone-suspicious-include) */
#undef READY_NS
#include "tests/support/chain_box.c" /* NOLINT(bugprone-suspicious-include) */
#include "tests/support/scratch.c" /* NOLINT(bugprone-suspicious-include) */
