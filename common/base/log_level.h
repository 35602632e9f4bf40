/* Levels of log lines. The public header uses them too: `cmake --install` puts this file beside it as
 * mobula/log_level.h. */
#ifndef MOB_COMMON_BASE_LOG_LEVEL_H
#define MOB_COMMON_BASE_LOG_LEVEL_H

enum mob_log_level { MOB_LOG_LEVEL_DEBUG, MOB_LOG_LEVEL_INFO, MOB_LOG_LEVEL_WARN, MOB_LOG_LEVEL_ERROR };

#endif
