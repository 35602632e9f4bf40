/* mobula-worker: started by the node's pool as the zygote, or by the node to describe a module file.
 *
 *   mobula-worker --zygote PARENT STATE_DIR LOG_DIR LOG_BYTES ADDRESS_SPACE OOM_SCORE_ADJ
 *   mobula-worker --inspect FILE      lines on stdout, see inspect.h
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/worker/inspect.h"
#include "runtime/worker/zygote.h"

static int zygote(char **argv)
{
    static struct mob_worker_config config;
    snprintf(config.state_dir, sizeof config.state_dir, "%s", argv[3]);
    snprintf(config.log_dir, sizeof config.log_dir, "%s", argv[4]);
    config.log_bytes_max = strtoull(argv[5], NULL, 10);
    config.address_space_bytes = strtoull(argv[6], NULL, 10);
    config.oom_score_adj = atoi(argv[7]);
    mob_zygote_run(&config, atoi(argv[2]));
}

int main(int argc, char **argv)
{
    if (argc == 8 && strcmp(argv[1], "--zygote") == 0)
        return zygote(argv);
    if (argc == 3 && strcmp(argv[1], "--inspect") == 0)
        return mob_inspect_print(argv[2]);
    fprintf(stderr, "mobula-worker is started by mobula-node\n");
    return 2;
}
