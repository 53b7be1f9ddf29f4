/* SPDX-License-Identifier: MIT
 *
 * Transactional effects as a program hands them over: a text of SQL statements, or Redis commands as lines of
 * JSON. Checked whole before anything of them is done.
 */
#include "client/effect.h"

#include "base/error.h"
#include "base/json.h"
#include "base/str.h"
#include "engine/sqlite/effect_text.h"

/* ---- SQL --------------------------------------------------------------------------------- */

/* What stands before a problem: which text, when there are several. */
struct place {
    char text[64];
};

static struct place place_of(size_t i, size_t n)
{
    struct place p = {""};

    if (n > 1)
        (void)snprintf(p.text, sizeof p.text, "file %zu of %zu, ", i + 1, n);
    return p;
}

struct sql {
    const emq_str *texts;
    size_t n;
    size_t empty; /* which one has no statement, from 1; 0 = none */
    char *problem;
};

static int run_sql(struct sqlite3 *db, void *arg)
{
    struct sql *x = arg;
    char what[EMQ__PROBLEM_MAX - sizeof(struct place)];
    int rc = 0;

    x->empty = 0;
    for (size_t i = 0; rc == 0 && i < x->n; i++) {
        int statements = 0;
        rc = emq__sqlite_run_text(db, x->texts[i], &statements, what, sizeof what);
        if (rc != 0)
            (void)snprintf(x->problem, EMQ__PROBLEM_MAX, "%s%s", place_of(i, x->n).text, what);
        else if (statements == 0)
            rc = (int)(x->empty = i + 1);
    }
    return rc;
}

emq_status emq__effect_sql(emq_client *c, emq_job *job, const emq_str *texts, size_t n,
                           const emq_effect_opts *opts, char problem[EMQ__PROBLEM_MAX],
                           emq_error *err)
{
    struct sql x = {.texts = texts, .n = n, .problem = problem};

    problem[0] = '\0';
    emq_status s = emq_effect_sqlite(c, job, run_sql, &x, opts, err);
    if (s == EMQ_FAILED && x.empty)
        s = emq__fail(err, EMQ_E_INVALID, 0, "sql effect", "%sthere is no statement in it",
                      place_of(x.empty - 1, n).text);
    return s;
}

/* ---- Redis ------------------------------------------------------------------------------- */

struct commands {
    struct emq__arena *mem;
    emq_redis_command list[EMQ_REDIS_COMMANDS_MAX];
    const emq_redis_command *pointers[EMQ_REDIS_COMMANDS_MAX];
    size_t n;
    struct place place;
};

static emq_status bad_line(const struct commands *x, size_t line, const char *what, emq_error *err)
{
    return emq__fail(err, EMQ_E_INVALID, 0, "redis effect",
                     "%sline %zu %s: write one command a line: [\"INCRBY\",\"hits\",\"1\"]",
                     x->place.text, line, what);
}

static size_t count_words(struct emq__json array, bool *strings)
{
    struct emq__json word;
    emq_str key;
    size_t pos = 0, n = 0;

    for (*strings = true; emq__json_next(array, &pos, &key, &word); n++)
        *strings = *strings && word.type == EMQ__JSON_STRING;
    return n;
}

static emq_status take_command(struct commands *x, emq_str text, size_t line, emq_error *err)
{
    struct emq__json array, word;
    bool strings = false;
    emq_str key;
    size_t pos = 0;

    if (!emq__json_valid(text, NULL))
        return bad_line(x, line, "is not JSON", err);
    array = emq__json_root(text);
    size_t n = array.type == EMQ__JSON_ARRAY ? count_words(array, &strings) : 0;
    if (n == 0 || !strings)
        return bad_line(x, line, "is not an array of strings", err);
    if (x->n == EMQ_REDIS_COMMANDS_MAX)
        return emq__fail(err, EMQ_E_INVALID, 0, "redis effect",
                         "%sline %zu is one command too many: allowed are %d", x->place.text, line,
                         EMQ_REDIS_COMMANDS_MAX);
    emq_str *words = emq__arena_zalloc(x->mem, n, sizeof *words);
    if (!words)
        return emq__no_memory("redis effect", err);
    for (size_t i = 0; emq__json_next(array, &pos, &key, &word); i++)
        if (!emq__json_str(word, x->mem, &words[i]))
            return emq__no_memory("redis effect", err);
    x->list[x->n] = (emq_redis_command){sizeof x->list[x->n], words, n};
    x->pointers[x->n] = &x->list[x->n];
    x->n++;
    return EMQ_OK;
}

static bool is_blank(emq_str s)
{
    for (size_t i = 0; i < s.len; i++)
        if ((unsigned char)s.ptr[i] > ' ')
            return false;
    return true;
}

static emq_status take_lines(struct commands *x, emq_str lines, emq_error *err)
{
    emq_status s = EMQ_OK;
    size_t before = x->n;

    for (size_t line = 1; s == EMQ_OK && lines.len; line++) {
        const char *feed = memchr(lines.ptr, '\n', lines.len);
        size_t n = feed ? (size_t)(feed - lines.ptr) : lines.len;
        emq_str text = emq_strn(lines.ptr, n);
        if (!is_blank(text))
            s = take_command(x, text, line, err);
        n += feed ? 1 : 0;
        lines = emq_strn(lines.ptr + n, lines.len - n);
    }
    if (s == EMQ_OK && x->n == before)
        s = emq__fail(err, EMQ_E_INVALID, 0, "redis effect", "%sthere is no command in it",
                      x->place.text);
    return s;
}

emq_status emq__effect_commands(emq_client *c, emq_job *job, const emq_str *texts, size_t n,
                                const emq_effect_opts *opts, emq_error *err)
{
    struct emq__arena mem = {0};
    struct commands x = {.mem = &mem};
    emq_status s = EMQ_OK;

    for (size_t i = 0; s == EMQ_OK && i < n; i++) {
        x.place = place_of(i, n);
        s = take_lines(&x, texts[i], err);
    }
    if (s == EMQ_OK)
        s = emq_effect_redis(c, job, x.pointers, x.n, opts, err);
    emq__arena_free(&mem);
    return s;
}
