/* In the tree: the levels themselves. `cmake --install` puts common/base/log_level.h in this place. */
#include "common/base/log_level.h"
