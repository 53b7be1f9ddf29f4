/* SPDX-License-Identifier: MIT
 *
 * Keys of a queue that belong to something else. They are looked for before a handle's first act on a queue;
 * and again when a script has met one all the same (it has written nothing then: lua/lib/sound.lua), since the
 * server does not say which one it was, nor which one a user may not reach. From then on each act is preceded by the
 * look until that finds none.
 */
#include "engine/redis/script.h"

#include "base/error.h"
#include "base/map.h"
#include "base/str.h"

#include <errno.h>

enum { WORDS_MAX = 100 };

/* words: what may be names of jobs. lines: at the jobs at their heads, too. */
static emq_status look(const struct rd_about *about, const emq_str *words, size_t n, bool lines,
                       bool denied, const struct rd_reply **found, emq_error *err)
{
    const struct rd_reply *r = NULL;
    struct rd_args *types =
        rd_args_new(&about->e->base, RD_LUA_types, about->prefix, about->queue, about->mem);

    rd_arg_i64(types, denied);
    rd_arg_i64(types, lines);
    for (size_t i = 0; i < n; i++)
        rd_arg_str(types, words[i]);
    if (types) {
        types->what = about->what;
        types->goes_on = false; /* it writes nothing */
    }
    emq_status s = rd_eval(types, &r, err);
    *found = s == EMQ_OK && rd_at(r, 1)->type == RD_STR ? r : NULL;
    return s;
}

static emq_status name_it(const struct rd_about *about, const struct rd_reply *found,
                          emq_error *err)
{
    emq_str key = rd_str(rd_at(found, 1)), is = rd_str(rd_at(found, 2)),
            want = rd_str(rd_at(found, 3));

    if (is.len == 0)
        return emq__fail(err, EMQ_E_REFUSED, 0, about->what,
                         "this user may not reach the key \"%.*s\": allow it all keys of the "
                         "prefix, ~%.*s:* (ACL SETUSER)",
                         EMQ_STR_ARG(key), EMQ_STR_ARG(about->prefix));
    return emq__fail(
        err, EMQ_E_INVALID, EEXIST, about->what,
        "the key \"%.*s\" is a %.*s and not a %.*s: it belongs to something else; move it "
        "away, or use another prefix",
        EMQ_STR_ARG(key), EMQ_STR_ARG(is), EMQ_STR_ARG(want));
}

static uint64_t hash_of(const struct rd_args *a)
{
    return emq__hash(a->prefix) * 31 + emq__hash(a->queue);
}

static _Atomic uint64_t *seen_of(const struct rd_args *a)
{
    return &a->e->seen[hash_of(a) % RD_SEEN];
}

emq_status rd_queue_looked_at(struct rd_args *a, emq_error *err)
{
    /* mend looks for itself; a lock is renewed whatever has become of the queue's keys, or jobs in hand run twice. */
    if (!a->looks || a->queue.len == 0 || a->script == RD_LUA_mend || a->script == RD_LUA_extend)
        return EMQ_OK;
    const struct rd_about about = {a->e, a->prefix, a->queue, a->what, a->mem};
    uint64_t hash = hash_of(a);
    _Atomic uint64_t *seen = seen_of(a);
    const struct rd_reply *found;

    if (atomic_load(seen) == hash)
        return EMQ_OK;
    emq_status s = look(&about, NULL, 0, false, false, &found, err);
    if (found)
        return name_it(&about, found, err);
    if (s == EMQ_OK)
        atomic_store(seen, hash);
    return s;
}

bool rd_explained(const struct rd_about *about, const struct rd_cmd *of, const struct rd_said *said,
                  emq_status *s, emq_error *err)
{
    const struct rd_reply *found;
    emq_str words[WORDS_MAX];
    size_t at = 0, n;

    if (about->queue.len == 0 || !(said->wrong_type || said->key_denied))
        return false;
    do {
        /* Whether a key that the user may not reach is there can't be known: not of any word. */
        n = of && !said->key_denied ? rd_cmd_words(of, at, words, WORDS_MAX) : 0;
        *s = look(about, words, n, n < WORDS_MAX, said->key_denied, &found, err);
        at += n;
    } while (*s == EMQ_OK && !found && n == WORDS_MAX);
    if (found)
        *s = name_it(about, found, err);
    return found != NULL;
}

/* The look itself was refused: it has one key. */
static emq_status meta_denied(const struct rd_args *a, emq_error *err)
{
    return emq__fail(err, EMQ_E_REFUSED, 0, a->what,
                     "this user may not reach the key \"%.*s:%.*s:meta\": allow it all keys of the "
                     "prefix, ~%.*s:* (ACL SETUSER)",
                     EMQ_STR_ARG(a->prefix), EMQ_STR_ARG(a->queue), EMQ_STR_ARG(a->prefix));
}

emq_status rd_script_failed(const struct rd_args *a, const struct rd_said *said, size_t node,
                            emq_error *err)
{
    const struct rd_about about = {a->e, a->prefix, a->queue, a->what, a->mem};
    emq_status s = EMQ_OK;

    if (said->wrong_type)
        atomic_store(seen_of(a), 0);
    if (a->n_keys > 0 && a->script == RD_LUA_types && said->key_denied)
        return meta_denied(a, err);
    if (a->script != RD_LUA_types && rd_explained(&about, &a->cmd, said, &s, err))
        return s;
    if (said->key_denied && s == EMQ_E_REFUSED)
        return s; /* of the look */
    if (!said->wrong_type || a->n_keys == 0 || a->script == RD_LUA_types)
        return rd_error_fail(said, &rd_node_at(a->e, node)->addr, a->what, err);
    return emq__fail(err, EMQ_E_INVALID, EEXIST, a->what,
                     "a key of the queue \"%.*s\" under the prefix \"%.*s\" belongs to something "
                     "else: %.*s",
                     EMQ_STR_ARG(a->queue), EMQ_STR_ARG(a->prefix), EMQ_STR_ARG(said->text));
}
