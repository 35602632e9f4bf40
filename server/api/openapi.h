/* api/openapi.yaml, and the same as JSON, compiled in by the build. */
#ifndef MOB_SERVER_API_OPENAPI_H
#define MOB_SERVER_API_OPENAPI_H

#include <stddef.h>

extern const char mob_openapi_yaml[];
extern const size_t mob_openapi_yaml_length;
extern const char mob_openapi_json[];
extern const size_t mob_openapi_json_length;

#endif
