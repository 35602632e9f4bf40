/* How values of settings are read; pure. For settings_sources.c and its tests. */
#ifndef MOB_COMMON_SETTINGS_SETTINGS_PARSE_H
#define MOB_COMMON_SETTINGS_SETTINGS_PARSE_H

#include "common/settings/settings.h"

/* Digits and the suffix that the type allows, in any case. False for anything else, also for what overflows.
 */
bool mob_setting_parse_number(enum mob_setting_type type, const char *text, int64_t *out);
/* `choices` as "a|b|c". */
bool mob_setting_is_choice(const char *choices, const char *text);

#endif
