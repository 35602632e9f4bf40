/* A task's arguments in wire form. Internal to sdk/c. */
#ifndef MOB_SDK_C_ARG_LIST_H
#define MOB_SDK_C_ARG_LIST_H

#include "sdk/c/client.h"

struct mob_arg_list {
    uint8_t *bytes; /* all arguments, encoded one behind the other */
    uint32_t used, capacity;
    uint32_t count;
    uint32_t inline_bytes, inline_count; /* those that stay in the spec */
    uint32_t pages;
    struct mob_object_id puts[8]; /* the first of those that were put for it */
    uint64_t put_bytes[8];
    uint32_t put_count;
    uint8_t few[1024];
};

/* Encode and check; large values are put first and become references. */
enum mob_status mob_arg_list_build(struct mob_client *client, const struct mob_signature_info *signature,
    struct mob_args args, struct mob_arg_list *list);
/* Put what does not fit into the spec, under ids of `task`. */
enum mob_status mob_arg_list_put_pages(
    struct mob_client *client, struct mob_arg_list *list, struct mob_task_id task);
void mob_arg_list_free(struct mob_arg_list *list);

#endif
