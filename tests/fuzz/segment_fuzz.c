/* The node's segment under a client that writes anywhere in it. */
#include "tests/fuzz/segment_harness.h"

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc;
    (void)argv;
    mob_log_threshold = MOB_LOG_LEVEL_ERROR + 1;
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct harness h;
    harness_open(&h);
    struct mob_reader in = mob_reader_of(data, size);
    for (int i = 0; i < HARNESS_OPS_MAX && harness_step(&h, &in); i++) {
    }
    harness_close(&h);
    return 0;
}
