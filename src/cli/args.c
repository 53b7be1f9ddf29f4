/* SPDX-License-Identifier: MIT
 *
 * See args.h. Pure: no I/O, so that it can be fuzzed.
 */
#include "cli/args.h"

#include "base/error.h"
#include "base/json.h"
#include "base/str.h"

#include <stdio.h>

static const struct cli_option *find_long(const struct cli_args *a, emq_str name, void **into)
{
    for (size_t t = 0; t < 2; t++) {
        for (const struct cli_option *o = a->options[t]; o && o->name; o++) {
            if (emq__str_is(name, o->name)) {
                *into = a->into[t];
                return o;
            }
        }
    }
    return NULL;
}

static const struct cli_option *find_letter(const struct cli_args *a, char letter, void **into)
{
    for (size_t t = 0; t < 2; t++) {
        for (const struct cli_option *o = a->options[t]; o && o->name; o++) {
            if (o->letter == letter) {
                *into = a->into[t];
                return o;
            }
        }
    }
    return NULL;
}

emq_status cli_parse_int(const char *what, emq_str text, int64_t min, int64_t max, int64_t *out,
                         emq_error *err)
{
    int64_t v;
    if (!emq__str_to_i64(text, &v))
        return emq__fail(err, EMQ_E_INVALID, 0, "arguments", "%s: \"%.*s\" is no whole number",
                         what, EMQ_STR_ARG(text));
    if (v < min || v > max)
        return emq__fail(err, EMQ_E_INVALID, 0, "arguments", "%s: %lld is outside %lld to %lld",
                         what, (long long)v, (long long)min, (long long)max);
    *out = v;
    return EMQ_OK;
}

const char *cli_choice(const struct cli_option *o, int32_t i)
{
    if (o->type == CLI_STATE)
        return i < EMQ_STATE_COUNT ? emq_state_name(i + 1) : NULL;
    return o->type == CLI_CHOICE ? o->choices[i] : NULL;
}

static emq_status parse_choice(const struct cli_option *o, emq_str text, int32_t *out,
                               emq_error *err)
{
    char list[160] = "";
    size_t used = 0;
    const char *word;
    for (int32_t i = 0; (word = cli_choice(o, i)) != NULL; i++) {
        if (emq__str_is(text, word)) {
            *out = o->type == CLI_STATE ? i + 1 : i;
            return EMQ_OK;
        }
        int n = snprintf(list + used, sizeof list - used, "%s%s", i ? ", " : "", word);
        if (n > 0 && (size_t)n < sizeof list - used)
            used += (size_t)n;
    }
    return emq__fail(err, EMQ_E_INVALID, 0, "arguments", "%s: \"%.*s\" is none of %s", o->name,
                     EMQ_STR_ARG(text), list);
}

static emq_status parse_span(const struct cli_option *o, emq_str text, int64_t *out, emq_error *err)
{
    int64_t ms;
    emq_error why;
    emq_status s = emq__duration_parse(text, &ms, &why);
    if (s != EMQ_OK)
        return emq__fail(err, s, 0, "arguments", "%s: %s", o->name, why.text);
    if ((o->min || o->max) && (ms < o->min || ms > o->max)) {
        char low[40], high[40];
        return emq__fail(err, EMQ_E_INVALID, 0, "arguments", "%s: %.*s is outside %s to %s",
                         o->name, EMQ_STR_ARG(text), emq__duration_format(o->min, low),
                         emq__duration_format(o->max, high));
    }
    *out = ms;
    return EMQ_OK;
}

static emq_status parse_number(const struct cli_option *o, emq_str text, double *out,
                               emq_error *err)
{
    double v;
    if (!emq__str_to_double(text, &v) || v < (double)o->min || v > (double)o->max)
        return emq__fail(err, EMQ_E_INVALID, 0, "arguments",
                         "%s: \"%.*s\" is no number from %lld to %lld", o->name, EMQ_STR_ARG(text),
                         (long long)o->min, (long long)o->max);
    *out = v;
    return EMQ_OK;
}

/* Models report in their own words; the option's name goes before them. */
static emq_status named(const struct cli_option *o, emq_status s, const emq_error *why,
                        emq_error *err)
{
    return s == EMQ_OK ? s : emq__fail(err, s, 0, "arguments", "%s: %s", o->name, why->text);
}

static emq_status store_value(const struct cli_option *o, void *into, emq_str text, emq_error *err)
{
    void *at = (char *)into + o->at;
    emq_error why = {0};
    emq_status s = EMQ_OK;

    switch (o->type) {
    case CLI_FLAG: *(bool *)at = true; break;
    case CLI_TEXT:
        if (!text.len && !o->may_be_empty)
            return emq__fail(err, EMQ_E_INVALID, 0, "arguments", "%s: the value is empty", o->name);
        *(emq_str *)at = text;
        break;
    case CLI_INT: {
        bool open = !o->min && !o->max;
        s = cli_parse_int(o->name, text, open ? INT64_MIN : o->min, open ? INT64_MAX : o->max,
                          (int64_t *)at, err);
        break;
    }
    case CLI_SPAN: s = parse_span(o, text, (int64_t *)at, err); break;
    case CLI_NUMBER: s = parse_number(o, text, (double *)at, err); break;
    case CLI_KEEP:
        s = named(o, emq__keep_parse(text, (struct emq__keep *)at, &why), &why, err);
        break;
    case CLI_BACKOFF:
        s = named(o, emq__backoff_parse(text, (struct emq__backoff *)at, &why), &why, err);
        break;
    case CLI_CHOICE:
    case CLI_STATE: s = parse_choice(o, text, (int32_t *)at, err); break;
    }
    if (s == EMQ_OK && o->seen_at)
        *((bool *)into + o->seen_at) = true;
    return s;
}

/* An optional value is taken from the next argument only if that is no option. */
static bool next_is_value(int i, int argc, char *const *argv)
{
    return i + 1 < argc && (argv[i + 1][0] != '-' || argv[i + 1][1] == '\0');
}

static emq_status parse_option(struct cli_args *a, int *i, int argc, char *const *argv,
                               emq_error *err)
{
    const char *arg = argv[*i];
    const char *equals = arg[1] == '-' ? strchr(arg, '=') : NULL;
    emq_str name = equals ? emq_strn(arg, (size_t)(equals - arg)) : emq_cstr(arg);
    void *into = NULL;

    const struct cli_option *o = arg[1] == '-' ? find_long(a, name, &into)
                                 : arg[2] == 0 ? find_letter(a, arg[1], &into)
                                               : NULL;
    if (!o)
        return emq__fail(err, EMQ_E_INVALID, 0, "arguments", "unknown option \"%.*s\"",
                         EMQ_STR_ARG(name));
    if (o->per_job && !a->per_job)
        a->per_job = o;
    if (o->type == CLI_FLAG) {
        if (equals)
            return emq__fail(err, EMQ_E_INVALID, 0, "arguments", "%s takes no value", o->name);
        return store_value(o, into, emq_cstr(""), err);
    }
    if (equals)
        return store_value(o, into, emq_cstr(equals + 1), err);
    if (o->optional && !next_is_value(*i, argc, argv)) {
        *((bool *)into + o->seen_at) = true;
        if (o->type == CLI_SPAN)
            *(int64_t *)(void *)((char *)into + o->at) = -1;
        return EMQ_OK;
    }
    if (*i + 1 >= argc)
        return emq__fail(err, EMQ_E_INVALID, 0, "arguments", "%s needs a value: %s %s", o->name,
                         o->name, o->value);
    return store_value(o, into, emq_cstr(argv[++*i]), err);
}

emq_status cli_parse(struct cli_args *a, int argc, char *const *argv, const char **words,
                     emq_error *err)
{
    a->words = words;
    a->n_words = 0;
    a->rest = NULL;
    a->per_job = NULL;
    for (int i = 0; i < argc; i++) {
        const char *arg = argv[i];
        if (strcmp(arg, "--") == 0) {
            a->rest = argv + i + 1;
            return EMQ_OK;
        }
        if (arg[0] != '-' || arg[1] == '\0') {
            words[a->n_words++] = arg;
            continue;
        }
        emq_status s = parse_option(a, &i, argc, argv, err);
        if (s != EMQ_OK)
            return s;
    }
    return EMQ_OK;
}
