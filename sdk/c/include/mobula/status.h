/* In the tree: the table itself. `cmake --install` puts common/base/status.h in this place. */
#include "common/base/status.h"
