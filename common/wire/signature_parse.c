/* Signatures: parser and canonical text. */
#include "common/wire/signature.h"

#include <string.h>

#include "common/wire/text_out.h"

struct parser {
    const char *begin, *at, *end;
    struct mob_signature *out;
    const char *problem; /* NULL = none so far */
    const char *where;
};

static void fail(struct parser *p, const char *problem)
{
    if (!p->problem) {
        p->problem = problem;
        p->where = p->at;
    }
}

static void skip_blanks(struct parser *p)
{
    while (p->at < p->end && (*p->at == ' ' || *p->at == '\t' || *p->at == '\n' || *p->at == '\r'))
        p->at++;
}

/* Takes `token` when it comes next. */
static bool accept(struct parser *p, const char *token)
{
    skip_blanks(p);
    size_t n = strlen(token);
    if (p->problem || (size_t)(p->end - p->at) < n || memcmp(p->at, token, n) != 0)
        return false;
    p->at += n;
    return true;
}

static void expect(struct parser *p, const char *token, const char *problem)
{
    if (!accept(p, token))
        fail(p, problem);
}

static bool is_name_start(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

bool mob_callable_name_ok(const char *name)
{
    size_t length = 0;
    while (name && length <= MOB_CALLABLE_NAME_MAX &&
        (is_name_start(name[length]) || is_digit(name[length]) || name[length] == '-'))
        length++;
    return length > 0 && length <= MOB_CALLABLE_NAME_MAX && name[length] == '\0';
}

/* A name into `out`; false when none comes next. */
static bool accept_name(struct parser *p, char out[MOB_SIGNATURE_NAME_MAX])
{
    skip_blanks(p);
    if (p->problem || p->at == p->end || !is_name_start(*p->at))
        return false;
    const char *from = p->at;
    const char *to = from;
    while (to < p->end && (is_name_start(*to) || is_digit(*to)))
        to++;
    if ((size_t)(to - from) >= MOB_SIGNATURE_NAME_MAX) {
        fail(p, "a name is at most 31 characters long");
        return false;
    }
    memset(out, 0, MOB_SIGNATURE_NAME_MAX);
    memcpy(out, from, (size_t)(to - from));
    p->at = to;
    return true;
}

static const struct {
    const char *name;
    enum mob_value_type type;
} bases[] = {
    {"any", MOB_TYPE_NONE},
    {"null", MOB_TYPE_NULL},
    {"bytes", MOB_TYPE_BYTES},
    {"utf8", MOB_TYPE_UTF8},
    {"json", MOB_TYPE_JSON},
    {"i64", MOB_TYPE_I64},
    {"f64", MOB_TYPE_F64},
    {"bool", MOB_TYPE_BOOL},
    {"tensor", MOB_TYPE_TENSOR},
    {"table", MOB_TYPE_TABLE},
    {"pickle5", MOB_TYPE_PICKLE5},
    {"actor", MOB_TYPE_ACTOR},
};

static void parse_base(struct parser *p, struct mob_sig_type *t)
{
    char name[MOB_SIGNATURE_NAME_MAX];
    skip_blanks(p);
    const char *start = p->at;
    if (!accept_name(p, name)) {
        fail(p, "a type is expected here");
        return;
    }
    for (size_t i = 0; i < sizeof bases / sizeof *bases; i++) {
        if (strcmp(bases[i].name, name) == 0) {
            t->type = (uint8_t)bases[i].type;
            return;
        }
    }
    p->at = start;
    fail(p,
        "no such type (known: any, null, bytes, utf8, json, i64, f64, bool, tensor, table, pickle5, actor)");
}

static int64_t parse_number(struct parser *p)
{
    int64_t value = 0;
    while (p->at < p->end && is_digit(*p->at)) {
        if (value > (INT64_MAX - 9) / 10) {
            fail(p, "the dimension is too large");
            return 0;
        }
        value = value * 10 + (*p->at++ - '0');
    }
    return value;
}

static int64_t dim_of_name(struct parser *p, const char *name)
{
    struct mob_signature *s = p->out;
    for (uint32_t i = 0; i < s->dim_name_count; i++)
        if (strcmp(s->dim_names[i], name) == 0)
            return -1 - (int64_t)i;
    if (s->dim_name_count == MOB_SIGNATURE_DIM_NAMES_MAX) {
        fail(p, "more than 16 dimension names");
        return 0;
    }
    memcpy(s->dim_names[s->dim_name_count], name, MOB_SIGNATURE_NAME_MAX);
    return -1 - (int64_t)s->dim_name_count++;
}

static int64_t parse_dim(struct parser *p)
{
    char name[MOB_SIGNATURE_NAME_MAX];
    if (accept(p, "*"))
        return MOB_SIG_DIM_ANY;
    if (accept_name(p, name))
        return dim_of_name(p, name);
    if (p->at == p->end || !is_digit(*p->at)) {
        fail(p, "a dimension is a number, a name or *");
        return 0;
    }
    return parse_number(p);
}

static void parse_tensor(struct parser *p, struct mob_sig_type *t)
{
    char name[MOB_SIGNATURE_NAME_MAX];
    if (accept(p, "<")) {
        t->dtype = MOB_DTYPE_NONE;
        if (accept_name(p, name))
            t->dtype = (uint8_t)mob_dtype_from_name(name, strlen(name));
        if (t->dtype == MOB_DTYPE_NONE || strcmp(mob_dtype_name((enum mob_dtype)t->dtype), name) != 0)
            fail(p, "no such dtype (known: bool, u8 to u64, i8 to i64, f16, bf16, f32, f64, bytes)");
        expect(p, ">", "> is expected after the dtype");
    }
    if (!accept(p, "["))
        return;
    t->has_shape = true;
    if (accept(p, "]"))
        return;
    do {
        if (t->ndim == MOB_TENSOR_DIMS_MAX) {
            fail(p, "more than 8 dimensions");
            return;
        }
        t->dims[t->ndim++] = parse_dim(p);
    } while (accept(p, ","));
    expect(p, "]", "] is expected after the dimensions");
}

static void parse_type(struct parser *p, struct mob_sig_type *t)
{
    memset(t, 0, sizeof *t);
    parse_base(p, t);
    if (t->type == MOB_TYPE_TENSOR)
        parse_tensor(p, t);
    t->optional = accept(p, "?");
    t->variadic = accept(p, "...");
    (void)accept_name(p, t->name);
}

/* Types up to what stops the list; their number. */
static uint32_t parse_list(struct parser *p, struct mob_sig_type *types, uint32_t most, bool *variadic_out)
{
    uint32_t count = 0;
    do {
        if (count == most) {
            fail(p, "more than 32 types in a list");
            return count;
        }
        if (count > 0 && types[count - 1].variadic) {
            fail(p, "nothing may follow a variadic type");
            return count;
        }
        parse_type(p, &types[count++]);
    } while (accept(p, ","));
    *variadic_out = types[count - 1].variadic;
    return count;
}

static void parse_returns(struct parser *p)
{
    struct mob_signature *s = p->out;
    skip_blanks(p);
    const char *start = p->at;
    char word[MOB_SIGNATURE_NAME_MAX];
    if (accept(p, "(")) {
        if (accept(p, ")"))
            return;
        s->return_count = parse_list(p, s->returns, MOB_SIGNATURE_RETURNS_MAX, &s->variadic_returns);
        expect(p, ")", ") is expected after the returns");
        return;
    }
    if (accept_name(p, word) && strcmp(word, "stream") == 0)
        s->stream = true;
    else
        p->at = start;
    s->return_count = 1;
    parse_type(p, &s->returns[0]);
    s->variadic_returns = s->returns[0].variadic;
    if (s->stream && s->variadic_returns)
        fail(p, "a stream has any number of items by itself");
}

static uint32_t required_of(const struct mob_signature *s)
{
    uint32_t n = s->param_count;
    while (n > 0 && (s->params[n - 1].optional || s->params[n - 1].variadic))
        n--;
    return n;
}

enum mob_status mob_signature_parse(
    const char *text, size_t length, struct mob_signature *out, struct mob_signature_error *error_out)
{
    struct mob_signature parsed = {0};
    struct parser p = {.begin = text, .at = text, .end = text + length, .out = &parsed};
    if (length > MOB_SIGNATURE_BYTES_MAX)
        fail(&p, "a signature has at most 1024 bytes");
    skip_blanks(&p);
    if (!accept(&p, "->")) {
        parsed.param_count = parse_list(&p, parsed.params, MOB_SIGNATURE_PARAMS_MAX, &parsed.variadic);
        expect(&p, "->", "-> and the returned type are expected here");
    }
    if (!p.problem)
        parse_returns(&p);
    skip_blanks(&p);
    if (p.at != p.end)
        fail(&p, "the signature should end here");
    if (p.problem) {
        if (error_out) {
            *error_out = (struct mob_signature_error){.position = (int32_t)(p.where - text), .index = -1};
            snprintf(error_out->message, sizeof error_out->message, "signature, byte %d: %s",
                error_out->position, p.problem);
        }
        return MOB_INVALID;
    }
    parsed.required = required_of(&parsed);
    *out = parsed;
    return MOB_OK;
}

static void add_dims(struct text_out *t, const struct mob_signature *s, const struct mob_sig_type *type)
{
    text_add(t, "[");
    for (uint32_t i = 0; i < type->ndim; i++) {
        int64_t dim = type->dims[i];
        const char *comma = i > 0 ? "," : "";
        if (dim == MOB_SIG_DIM_ANY)
            text_add(t, "%s*", comma);
        else if (dim >= 0)
            text_add(t, "%s%lld", comma, (long long)dim);
        else
            text_add(t, "%s%s", comma, s ? s->dim_names[-1 - dim] : "*");
    }
    text_add(t, "]");
}

static void add_type(struct text_out *t, const struct mob_signature *s, const struct mob_sig_type *type)
{
    text_add(
        t, "%s", type->type == MOB_TYPE_NONE ? "any" : mob_value_type_name((enum mob_value_type)type->type));
    if (type->dtype != MOB_DTYPE_NONE)
        text_add(t, "<%s>", mob_dtype_name((enum mob_dtype)type->dtype));
    if (type->has_shape)
        add_dims(t, s, type);
    text_add(t, "%s%s", type->optional ? "?" : "", type->variadic ? "..." : "");
}

uint32_t mob_sig_type_format(
    const struct mob_signature *s, const struct mob_sig_type *t, char *out, uint32_t capacity)
{
    struct text_out text = text_out_of(out, capacity);
    add_type(&text, s, t);
    return text_length(&text);
}

static void add_list(
    struct text_out *t, const struct mob_signature *s, const struct mob_sig_type *types, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        text_add(t, "%s", i > 0 ? ", " : "");
        add_type(t, s, &types[i]);
        if (types[i].name[0] != '\0')
            text_add(t, " %s", types[i].name);
    }
}

uint32_t mob_signature_format(const struct mob_signature *s, char *out, uint32_t capacity)
{
    struct text_out t = text_out_of(out, capacity);
    bool listed = s->return_count != 1 && !s->stream;
    add_list(&t, s, s->params, s->param_count);
    text_add(&t, "%s-> %s%s", s->param_count > 0 ? " " : "", s->stream ? "stream " : "", listed ? "(" : "");
    add_list(&t, s, s->returns, s->return_count);
    text_add(&t, "%s", listed ? ")" : "");
    return text_length(&t);
}
