#include "server/api/item_fields.h"

#include <stdio.h>
#include <string.h>

#include "common/wire/value.h"

enum form {
    FORM_TEXT, /* anything */
    FORM_NUMBER,
    FORM_CHOICE, /* one of `words` */
    FORM_ID, /* `words` is its prefix */
    FORM_STATUS, /* code of an error */
    FORM_TYPE /* of a value */
};

struct field {
    const char *name; /* NULL ends the list */
    enum form form;
    const char *words; /* with | between them */
};

#define TRUTH FORM_CHOICE, "true|false"
#define FIELDS(...) \
    (const struct field[]) \
    { \
        __VA_ARGS__, \
        { \
            NULL, FORM_TEXT, NULL \
        } \
    }

static const struct {
    const char *plural;
    const struct field *fields;
} kinds[] = {
    [MOB_ITEM_TASK] = {"tasks",
        FIELDS({"id", FORM_ID, "task_"}, {"function", FORM_TEXT, NULL}, {"name", FORM_TEXT, NULL},
            {"job", FORM_ID, "job_"}, {"parent", FORM_ID, "task_"}, {"actor", FORM_ID, "actor_"},
            {"state", FORM_CHOICE,
                "submitted|waiting|delayed|ready|running|blocked|continued|finished|failed|cancelled"},
            {"submitted_us", FORM_NUMBER, NULL}, {"started_us", FORM_NUMBER, NULL},
            {"finished_us", FORM_NUMBER, NULL}, {"worker", FORM_NUMBER, NULL}, {"attempt", FORM_NUMBER, NULL},
            {"code", FORM_STATUS, NULL})},
    [MOB_ITEM_OBJECT] = {"objects",
        FIELDS({"id", FORM_ID, "obj_"}, {"task", FORM_ID, "task_"}, {"job", FORM_ID, "job_"},
            {"state", FORM_CHOICE, "ready|failed|lost"}, {"type", FORM_TYPE, NULL},
            {"size", FORM_NUMBER, NULL})},
    [MOB_ITEM_ACTOR] = {"actors",
        FIELDS({"id", FORM_ID, "actor_"}, {"class", FORM_TEXT, NULL}, {"name", FORM_TEXT, NULL},
            {"state", FORM_CHOICE, "unknown|pending|alive|restarting|dead"}, {"job", FORM_ID, "job_"},
            {"namespace", FORM_TEXT, NULL}, {"incarnation", FORM_NUMBER, NULL}, {"calls", FORM_NUMBER, NULL},
            {"next_position", FORM_NUMBER, NULL}, {"restarts_left", FORM_NUMBER, NULL},
            {"pid", FORM_NUMBER, NULL}, {"detached", TRUTH}, {"why", FORM_TEXT, NULL})},
    [MOB_ITEM_FUNCTION] = {"functions",
        FIELDS({"name", FORM_TEXT, NULL}, {"id", FORM_ID, "fn_"}, {"module_hash", FORM_TEXT, NULL},
            {"kind", FORM_CHOICE, "function|class"}, {"signature", FORM_TEXT, NULL}, {"newest", TRUTH})},
    [MOB_ITEM_JOB] = {"jobs",
        FIELDS({"id", FORM_ID, "job_"}, {"namespace", FORM_TEXT, NULL}, {"name", FORM_TEXT, NULL},
            {"state", FORM_CHOICE, "running|grace|ended"}, {"standing", TRUTH}, {"detached", TRUTH},
            {"over_http", TRUTH}, {"keyed", TRUTH}, {"root", FORM_ID, "task_"}, {"weight", FORM_NUMBER, NULL},
            {"submitted", FORM_NUMBER, NULL}, {"finished", FORM_NUMBER, NULL}, {"failed", FORM_NUMBER, NULL},
            {"started_us", FORM_NUMBER, NULL}, {"ended_us", FORM_NUMBER, NULL})},
    [MOB_ITEM_NODE] = {"nodes",
        FIELDS({"id", FORM_TEXT, NULL}, {"name", FORM_TEXT, NULL}, {"state", FORM_CHOICE, "live"},
            {"incarnation", FORM_NUMBER, NULL}, {"passes", FORM_NUMBER, NULL},
            {"submitted", FORM_NUMBER, NULL}, {"finished", FORM_NUMBER, NULL}, {"failed", FORM_NUMBER, NULL},
            {"retried", FORM_NUMBER, NULL}, {"duplicates", FORM_NUMBER, NULL})},
    [MOB_ITEM_ENDPOINT] = {"endpoints",
        FIELDS({"name", FORM_TEXT, NULL}, {"class", FORM_TEXT, NULL}, {"max_batch_size", FORM_NUMBER, NULL},
            {"max_queue_delay_us", FORM_NUMBER, NULL}, {"timeout_ms", FORM_NUMBER, NULL},
            {"state", FORM_CHOICE, "starting|ready|failed"}, {"actor", FORM_ID, "actor_"},
            {"error", FORM_TEXT, NULL})},
};

static const struct field *find(enum mob_engine_kind kind, const char *name)
{
    const struct field *field = kinds[kind].fields;
    while (field->name && strcmp(field->name, name) != 0)
        field++;
    return field->name ? field : NULL;
}

/* --- values --- */

static bool is_one_of(const char *pattern, const char *words)
{
    char word[32];
    for (const char *at = words; *at; at += *at == '|') {
        size_t length = strcspn(at, "|");
        snprintf(word, sizeof word, "%.*s", (int)length, at);
        if (mob_glob(pattern, word))
            return true;
        at += length;
    }
    return false;
}

/* Filters do not mind the case of letters. */
static bool is_id(const char *pattern, const char *prefix)
{
    char text[129], whole[MOB_ID_TEXT_MAX];
    size_t length = strlen(pattern);
    struct mob_task_id task;
    struct mob_object_id object;
    struct mob_actor_id actor;
    struct mob_job_id job;
    struct mob_function_id function;
    if (length >= sizeof text)
        return false;
    for (size_t i = 0; i <= length; i++)
        text[i] = (char)(pattern[i] >= 'A' && pattern[i] <= 'Z' ? pattern[i] + ('a' - 'A') : pattern[i]);
    if (strchr(text, '*')) { /* it may only be made of what ids are made of */
        snprintf(whole, sizeof whole, "%.*s", (int)strcspn(text, "*"), text);
        size_t common = strlen(prefix) < strlen(whole) ? strlen(prefix) : strlen(whole);
        return strncmp(whole, prefix, common) == 0 &&
            text[strspn(text, "abcdefghijklmnopqrstuvwxyz234567_*")] == '\0';
    }
    switch (prefix[0]) {
    case 't':
        return mob_task_id_parse(text, &task) == MOB_OK;
    case 'o':
        return mob_object_id_parse(text, &object) == MOB_OK;
    case 'a':
        return mob_actor_id_parse(text, &actor) == MOB_OK;
    case 'j':
        return mob_job_id_parse(text, &job) == MOB_OK;
    default:
        return mob_function_id_parse(text, &function) == MOB_OK;
    }
}

static bool is_status(const char *pattern)
{
#define MATCHES(number, id, code, ...) \
    if (mob_glob(pattern, code)) \
        return true;
    MOB_STATUS_TABLE(MATCHES)
#undef MATCHES
    return false;
}

static bool is_type(const char *pattern)
{
    for (int type = MOB_TYPE_NULL; type < MOB_TYPE_COUNT; type++)
        if (mob_glob(pattern, mob_value_type_name((enum mob_value_type)type)))
            return true;
    return false;
}

static bool may_be(const struct field *field, const char *value)
{
    switch (field->form) {
    case FORM_NUMBER:
        return mob_filter_is_comparison(value) || value[strspn(value, "0123456789-*")] == '\0';
    case FORM_CHOICE:
        return is_one_of(value, field->words);
    case FORM_ID:
        return is_id(value, field->words);
    case FORM_STATUS:
        return is_status(value);
    case FORM_TYPE:
        return is_type(value);
    case FORM_TEXT:
        break;
    }
    return true;
}

static void say_value(enum mob_engine_kind kind, const struct field *field, const char *value, char *message)
{
    char what[256];
    if (field->form == FORM_CHOICE)
        snprintf(what, sizeof what, "is one of %s", field->words);
    else if (field->form == FORM_ID)
        snprintf(what, sizeof what,
            "is an id, as %s followed by letters and digits, or a pattern of one, as %s*", field->words,
            field->words);
    else if (field->form == FORM_NUMBER)
        snprintf(what, sizeof what, "is a number: 17, or >17, >=17, <17, <=17, or a pattern, as 17*");
    else
        snprintf(what, sizeof what, "is one of %s",
            field->form == FORM_TYPE ? "the types of docs/signatures.md, as i64"
                                     : "the codes of problems, as task-failed");
    snprintf(message, MOB_ITEM_FIELDS_MESSAGE_MAX, "filter: the %s of %s %s; it is never \"%.128s\"",
        field->name, kinds[kind].plural, what, value);
}

static void say_field(enum mob_engine_kind kind, const char *parameter, const char *name, char *message)
{
    size_t used = (size_t)snprintf(message, MOB_ITEM_FIELDS_MESSAGE_MAX,
        "%s: %s have no field \"%.64s\"; they have", parameter, kinds[kind].plural, name);
    for (const struct field *field = kinds[kind].fields; field->name && used < MOB_ITEM_FIELDS_MESSAGE_MAX;
         field++)
        used += (size_t)snprintf(message + used, MOB_ITEM_FIELDS_MESSAGE_MAX - used, " %s", field->name);
}

bool mob_item_fields_check(enum mob_engine_kind kind, const struct mob_filter *filter, const char *sort,
    char message[MOB_ITEM_FIELDS_MESSAGE_MAX])
{
    for (size_t i = 0; i < filter->count; i++)
        if (!find(kind, filter->terms[i].field)) {
            say_field(kind, "filter", filter->terms[i].field, message);
            return false;
        }
    if (sort && *sort && !find(kind, sort + (*sort == '-'))) {
        say_field(kind, "sort", sort + (*sort == '-'), message);
        return false;
    }
    for (size_t i = 0; i < filter->count; i++) {
        const struct field *field = find(kind, filter->terms[i].field);
        if (!may_be(field, filter->terms[i].value)) {
            say_value(kind, field, filter->terms[i].value, message);
            return false;
        }
    }
    return true;
}
