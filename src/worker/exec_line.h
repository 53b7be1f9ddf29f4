/* SPDX-License-Identifier: MIT
 *
 * The lines that a program writes to descriptor 3. Pure: a line in, its meaning out.
 */
#ifndef EMQ_WORKER_EXEC_LINE_H
#define EMQ_WORKER_EXEC_LINE_H

#include "base/base.h"

enum emq__exec_line_kind {
    EMQ__EXEC_LINE_EMPTY = 1,
    EMQ__EXEC_LINE_PROGRESS,    /* text: valid JSON */
    EMQ__EXEC_LINE_LOG,         /* text */
    EMQ__EXEC_LINE_RETRY_AFTER, /* ms */
    EMQ__EXEC_LINE_SQL,         /* text: a file's name */
    EMQ__EXEC_LINE_REDIS,       /* the same */
    EMQ__EXEC_LINE_BAD,         /* of a word that tells of the job: it can be left out; problem */
    EMQ__EXEC_LINE_WRONG        /* it may have asked for an effect: it can't be left out; problem */
};

struct emq__exec_line {
    enum emq__exec_line_kind kind;
    emq_str text; /* a slice of the line */
    int64_t ms;
    const char *problem; /* static text */
};

/* line: without its line feed; a carriage return at its end is left out. */
struct emq__exec_line emq__exec_line_parse(emq_str line);

/* ---- splitting ---------------------------------------------------------------------------- */

#include "base/buf.h"

/* Lines out of a stream of bytes. A line longer than `max` bytes is cut: its first max bytes are
 * given, and the rest up to the line feed is dropped. */
struct emq__lines {
    struct emq__buf part; /* of the line that has not ended */
    size_t max;
    bool cut;
};
/* cut: bytes are missing at its end. */
typedef void (*emq__line_fn)(void *user, emq_str line, bool cut);

void emq__lines_init(struct emq__lines *l, size_t max);
void emq__lines_feed(struct emq__lines *l, emq_str bytes, emq__line_fn fn, void *user);
/* The last line, when it has no line feed. */
void emq__lines_end(struct emq__lines *l, emq__line_fn fn, void *user);
void emq__lines_free(struct emq__lines *l);

#endif
