/* SPDX-License-Identifier: MIT
 *
 * A key of a queue that belongs to something else for a while.
 */
#ifndef EMQ_TESTS_REDIS_FOREIGN_H
#define EMQ_TESTS_REDIS_FOREIGN_H

#include "redis/keys.h"

struct foreign {
    char key[60];
    bool was_there;
};

static inline bool is_text(struct fx *t, const char *key, const char *name)
{
    static const char *const texts[] = {"id", "pc", "limiter", "stalled-check"};

    for (size_t i = 0; i < EMQ_ARRAY_LEN(texts); i++)
        if (strcmp(key, texts[i]) == 0)
            return true;
    return strncmp(key, "de:", 3) == 0 || strcmp(DO("TYPE %s", name), "string") == 0;
}

static inline struct foreign foreign_put(struct fx *t, const char *queue, const char *key)
{
    struct foreign f;

    (void)snprintf(f.key, sizeof f.key, "emq:%s:%s", queue, key);
    bool text = is_text(t, key, f.key);
    f.was_there = server_number(DO("EXISTS %s", f.key)) == 1;
    if (f.was_there)
        DO("RENAME %s aside", f.key);
    DO(text ? "RPUSH %s x" : "SET %s x", f.key);
    return f;
}

static inline void foreign_take_away(struct fx *t, const struct foreign *f)
{
    DO("DEL %s", f->key);
    if (f->was_there)
        CHECK_DO("OK", "RENAME aside %s", f->key);
}

static inline void keep_first(void *text, const char *line)
{
    if (!*(char *)text)
        (void)snprintf(text, 300, "%s", line);
}

/* What must be true of a queue and is not; NULL = nothing. Static text. */
static inline const char *first_broken(struct fx *t, const char *queue)
{
    static char text[300];
    struct emq__dump_res d = dump(t, queue);

    text[0] = '\0';
    (void)emq__check_dump(&d, keep_first, text);
    return text[0] ? text : NULL;
}

#endif
