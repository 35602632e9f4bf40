/* Signatures: checking values against them. */
#include "common/wire/signature.h"

#include <string.h>

#include "common/wire/text_out.h"

const struct mob_sig_type *mob_signature_param(const struct mob_signature *s, uint32_t index)
{
    if (index < s->param_count)
        return &s->params[index];
    return s->variadic ? &s->params[s->param_count - 1] : NULL;
}

const struct mob_sig_type *mob_signature_return(const struct mob_signature *s, uint32_t index)
{
    if (index < s->return_count)
        return &s->returns[index];
    return s->variadic_returns || s->stream ? &s->returns[s->return_count - 1] : NULL;
}

static void set_error(struct mob_signature_error *e, uint32_t index, const struct mob_sig_type *type)
{
    *e = (struct mob_signature_error){.position = -1, .index = (int32_t)index};
    if (type)
        memcpy(e->name, type->name, sizeof e->name);
}

/* The found text is set; the sentence is put together from all fields. */
static enum mob_status mismatch(struct mob_signature_error *e, const char *what)
{
    bool named = e->name[0] != '\0';
    snprintf(e->message, sizeof e->message, "%s %d%s%s%s: expected %s, found %s", what, e->index,
        named ? " (" : "", e->name, named ? ")" : "", e->expected, e->found);
    return MOB_TYPE_MISMATCH;
}

/* As mismatch, of an argument that is not there: expected and found are counts. */
static enum mob_status is_missing(struct mob_signature_error *e)
{
    bool named = e->name[0] != '\0';
    snprintf(e->message, sizeof e->message, "argument %d%s%s%s is missing: expected %s, found %s", e->index,
        named ? " (" : "", e->name, named ? ")" : "", e->expected, e->found);
    return MOB_TYPE_MISMATCH;
}

/* For an actual tensor: its dtype and shape. */
static void describe_tensor(const struct mob_tensor_view *v, char *out, uint32_t capacity)
{
    struct text_out t = text_out_of(out, capacity);
    text_add(&t, "tensor<%s>[", mob_dtype_name(v->dtype));
    for (uint32_t i = 0; i < v->ndim; i++)
        text_add(&t, "%s%lld", i > 0 ? "," : "", (long long)v->shape[i]);
    text_add(&t, "]");
}

static bool dims_fit(
    struct mob_signature_check *c, const struct mob_sig_type *type, const struct mob_tensor_view *v)
{
    if (!c->dims_seen) {
        c->dims_seen = true;
        for (uint32_t i = 0; i < MOB_SIGNATURE_DIM_NAMES_MAX; i++)
            c->dims[i] = -1;
    }
    if (type->ndim != v->ndim)
        return false;
    for (uint32_t i = 0; i < v->ndim; i++) {
        int64_t dim = type->dims[i];
        if (dim == MOB_SIG_DIM_ANY)
            continue;
        int64_t *bound = dim < 0 ? &c->dims[-1 - dim] : NULL;
        if (bound && *bound < 0)
            *bound = v->shape[i];
        if (v->shape[i] != (bound ? *bound : dim))
            return false;
    }
    return true;
}

/* What a named dim is bound to by now, so that the message shows why the shape does not fit. */
static void describe_bound_dims(
    const struct mob_signature_check *c, const struct mob_sig_type *type, char *out, uint32_t capacity)
{
    struct text_out t = text_out_of(out, capacity);
    t.used = mob_sig_type_format(c->signature, type, out, capacity);
    for (uint32_t i = 0; i < type->ndim; i++) {
        int64_t dim = type->dims[i];
        if (dim < 0 && dim != MOB_SIG_DIM_ANY && c->dims[-1 - dim] >= 0)
            text_add(&t, " %s=%lld", c->signature->dim_names[-1 - dim], (long long)c->dims[-1 - dim]);
    }
}

/* `known`: what the payload says, for who has it already; else NULL. */
static bool tensor_fits(struct mob_signature_check *c, const struct mob_sig_type *type,
    const struct mob_arg_view *arg, const struct mob_tensor_view *known, struct mob_signature_error *e)
{
    struct mob_tensor_view opened;
    if (type->dtype == MOB_DTYPE_NONE && !type->has_shape)
        return true;
    if (!known && mob_tensor_open(arg->payload, arg->payload_bytes, &opened) != MOB_OK) {
        snprintf(e->found, sizeof e->found, "an unreadable tensor");
        return false;
    }
    const struct mob_tensor_view *v = known ? known : &opened;
    if ((type->dtype == MOB_DTYPE_NONE || type->dtype == v->dtype) &&
        (!type->has_shape || dims_fit(c, type, v)))
        return true;
    describe_tensor(v, e->found, sizeof e->found);
    if (type->has_shape && c->dims_seen)
        describe_bound_dims(c, type, e->expected, sizeof e->expected);
    return false;
}

static enum mob_status check_value(struct mob_signature_check *c, const struct mob_sig_type *type,
    uint32_t index, const struct mob_arg_view *arg, const struct mob_tensor_view *tensor, const char *what,
    struct mob_signature_error *error_out)
{
    if (type->type == MOB_TYPE_NONE || (arg->is_ref && arg->type == MOB_TYPE_NONE))
        return MOB_OK;
    if (arg->type == MOB_TYPE_NULL && type->optional)
        return MOB_OK;
    struct mob_signature_error scratch;
    struct mob_signature_error *e = error_out ? error_out : &scratch;
    if (arg->type == type->type) {
        if (type->type != MOB_TYPE_TENSOR || arg->is_ref)
            return MOB_OK;
        set_error(e, index, type);
        if (tensor_fits(c, type, arg, tensor, e))
            return MOB_OK;
    } else {
        set_error(e, index, type);
        snprintf(e->found, sizeof e->found, "%s", mob_value_type_name(arg->type));
    }
    if (e->expected[0] == '\0') {
        struct mob_sig_type one = *type;
        one.variadic = false;
        mob_sig_type_format(c->signature, &one, e->expected, sizeof e->expected);
    }
    return mismatch(e, what);
}

static enum mob_status count_mismatch(
    const struct mob_signature *s, uint32_t found, struct mob_signature_error *e)
{
    if (!e)
        return MOB_TYPE_MISMATCH;
    const struct mob_sig_type *missing = found < s->param_count ? &s->params[found] : NULL;
    set_error(e, found, missing);
    if (s->variadic)
        snprintf(e->expected, sizeof e->expected, "at least %u arguments", s->required);
    else if (s->required < s->param_count)
        snprintf(e->expected, sizeof e->expected, "%u to %u arguments", s->required, s->param_count);
    else
        snprintf(e->expected, sizeof e->expected, "%u argument%s", s->required, s->required == 1 ? "" : "s");
    if (missing)
        snprintf(e->found, sizeof e->found, "%u", found);
    else
        snprintf(e->found, sizeof e->found, "more than %u", s->param_count);
    return missing ? is_missing(e) : mismatch(e, "argument");
}

enum mob_status mob_signature_check_next(
    struct mob_signature_check *c, const struct mob_arg_view *arg, struct mob_signature_error *error_out)
{
    const struct mob_sig_type *type = mob_signature_param(c->signature, c->count);
    if (!type)
        return count_mismatch(c->signature, c->count, error_out);
    return check_value(c, type, c->count++, arg, NULL, "argument", error_out);
}

enum mob_status mob_signature_check_tensor(struct mob_signature_check *c,
    const struct mob_tensor_view *tensor, struct mob_signature_error *error_out)
{
    const struct mob_arg_view arg = {.type = MOB_TYPE_TENSOR};
    const struct mob_sig_type *type = mob_signature_param(c->signature, c->count);
    if (!type)
        return count_mismatch(c->signature, c->count, error_out);
    return check_value(c, type, c->count++, &arg, tensor, "argument", error_out);
}

enum mob_status mob_signature_check_end(
    const struct mob_signature_check *c, struct mob_signature_error *error_out)
{
    return c->count < c->signature->required ? count_mismatch(c->signature, c->count, error_out) : MOB_OK;
}

enum mob_status mob_signature_check_args(const struct mob_signature *s, const struct mob_arg_view *args,
    uint32_t count, struct mob_signature_error *error_out)
{
    struct mob_signature_check c;
    mob_signature_check_begin(&c, s);
    for (uint32_t i = 0; i < count; i++) {
        enum mob_status status = mob_signature_check_next(&c, &args[i], error_out);
        if (status != MOB_OK)
            return status;
    }
    return mob_signature_check_end(&c, error_out);
}

enum mob_status mob_signature_check_tail(const struct mob_signature *s, const uint8_t *checked_tail,
    bool complete, struct mob_signature_error *error_out)
{
    struct mob_signature_check c;
    struct mob_tail_iter it = mob_spec_args(checked_tail);
    struct mob_arg_view arg;
    mob_signature_check_begin(&c, s);
    while (mob_tail_next_arg(&it, &arg)) {
        enum mob_status status = mob_signature_check_next(&c, &arg, error_out);
        if (status != MOB_OK)
            return status;
    }
    return complete ? mob_signature_check_end(&c, error_out) : MOB_OK;
}

enum mob_status mob_signature_check_return(const struct mob_signature *s, uint32_t index,
    const struct mob_arg_view *value, struct mob_signature_error *error_out)
{
    struct mob_signature_check c;
    const struct mob_sig_type *type = mob_signature_return(s, index);
    mob_signature_check_begin(&c, s);
    if (type)
        return check_value(&c, type, index, value, NULL, "return", error_out);
    if (error_out) {
        set_error(error_out, index, NULL);
        snprintf(error_out->expected, sizeof error_out->expected, "%u returns", s->return_count);
        snprintf(error_out->found, sizeof error_out->found, "one more");
        return mismatch(error_out, "return");
    }
    return MOB_TYPE_MISMATCH;
}
