/* SPDX-License-Identifier: MIT
 *
 * Any bytes, split at newlines, as the arguments of every verb. What is accepted leaves values inside
 * their ranges; what is refused says why in valid text.
 */
#include "fuzz.h"

#include "base/str.h"
#include "cli/cli.h"

enum { MAX_ARGS = 64, MAX_TEXT = 4096 };

static void check_value(const struct cli_option *o, const void *into)
{
    const char *at = (const char *)into + o->at;
    if (o->type == CLI_INT && (o->min || o->max)) {
        int64_t v = *(const int64_t *)(const void *)at;
        FUZZ_CHECK(v == 0 || (v >= o->min && v <= o->max));
    }
    if (o->type == CLI_SPAN) {
        int64_t v = *(const int64_t *)(const void *)at;
        FUZZ_CHECK(v >= (o->optional ? -1 : 0) && v <= EMQ__SPAN_MAX_MS);
    }
    if (o->type == CLI_CHOICE) {
        int32_t v = *(const int32_t *)(const void *)at, n = 0;
        while (o->choices[n])
            n++;
        FUZZ_CHECK(v >= 0 && v < n);
    }
}

static void parse_as(const struct cli_verb *verb, int argc, char *const *argv)
{
    struct cli_globals globals = {0};
    const char *words[MAX_ARGS];
    emq_error err;
    void *options = calloc(1, verb->options_size + 1);
    struct cli_args a = {.options = {verb->options, cli_global_options},
                         .into = {options, &globals}};

    FUZZ_CHECK(options != NULL);
    if (cli_parse(&a, argc, argv, words, &err) == EMQ_OK) {
        FUZZ_CHECK(a.n_words <= (size_t)argc);
        for (const struct cli_option *o = verb->options; o && o->name; o++)
            check_value(o, options);
    } else {
        FUZZ_CHECK(err.status == EMQ_E_INVALID && err.text[0] != '\0');
    }
    free(options);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char text[MAX_TEXT + 1];
    char *argv[MAX_ARGS + 1];
    int argc = 0;

    size = size < MAX_TEXT ? size : MAX_TEXT;
    memcpy(text, data, size);
    text[size] = '\0';
    for (char *at = text; argc < MAX_ARGS;) {
        argv[argc++] = at;
        char *end = strchr(at, '\n');
        if (!end)
            break;
        *end = '\0';
        at = end + 1;
    }
    argv[argc] = NULL;
    for (size_t i = 0; cli_verbs[i]; i++)
        parse_as(cli_verbs[i], argc, argv);
    return 0;
}
