/* What a submission asks for beside its arguments: checked before anything is published, and written as
 * extensions of the spec. Any thread that owns the client. */
#ifndef MOB_SDK_C_OPTIONS_H
#define MOB_SDK_C_OPTIONS_H

#include "common/wire/option_bounds.h"
#include "sdk/c/client.h"

/* MOB_INVALID: a struct_size that no version of the options has had; `here` is that of this one. */
enum mob_status mob_options_size_check(struct mob_client *client, size_t given, size_t here);
/* MOB_INVALID, with the option's name in mob_client_error. The node ends a session that publishes a record
 * which makes no sense, so none may leave. */
enum mob_status mob_options_check(struct mob_client *client, const struct mob_submit_options *options);
/* MOB_INVALID: one that an actor's call cannot heed. Its resources are the actor's; and what it did to the
 * instance before it failed is not undone by running it again, nor would a replay of its log do that. */
enum mob_status mob_call_options_check(struct mob_client *client, const struct mob_submit_options *options);
enum mob_status mob_actor_options_check(struct mob_client *client, const struct mob_actor_options *options);
/* 1/10000 CPU of an option that was checked or will be; 0 = `by_default`, negative = none. */
uint32_t mob_cpu_units(double cpus, uint32_t by_default);
/* The extensions; an entry "CPU" replaces *cpu. */
void mob_resources_write(
    struct mob_tail_builder *b, const struct mob_resource *resources, size_t count, uint32_t *cpu);
void mob_label_write(struct mob_tail_builder *b, const char *label);

#endif
