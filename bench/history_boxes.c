/* Clients with histories, and links that spoil what passes, of a bench's own: benches link no test library.
 */
#include "tests/support/fault_proxy.c" /* NOLINT(bugprone-suspicious-include) */
#include "tests/support/gcs_history.c" /* NOLINT(bugprone-suspicious-include) */
#include "tests/support/gcs_load.c" /* NOLINT(bugprone-suspicious-include) */
