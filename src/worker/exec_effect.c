/* SPDX-License-Identifier: MIT
 *
 * The effects that a program asks for, on descriptor 3 or in a line of --stream: files of SQL or of Redis commands.
 * They are read when it has ended well, or answered with a result; several of a kind are one effect, in the order
 * in which they were named, each a text of its own: the end of one is never the beginning of the next.
 */
#include "worker/exec_internal.h"

#include "base/error.h"
#include "base/str.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

enum { FILES_MAX = 64, BYTES_MAX = EMQ_DATA_MAX };

void emq__asked_add(struct emq__asked *a, emq_str file, bool sql, struct emq__arena *mem)
{
    struct emq__asked_file *f = emq__arena_zalloc(mem, 1, sizeof *f);

    if (f)
        f->name = emq__arena_str(mem, file);
    if (!f || !f->name.ptr || a->n == FILES_MAX) {
        a->failed = a->n == FILES_MAX ? EMQ_E_INVALID : EMQ_E_NOMEM;
        return;
    }
    f->sql = sql;
    *(a->last ? &a->last->next : &a->first) = f;
    a->last = f;
    a->n++;
}

void emq__asked_wrong(struct emq__asked *a, emq_str line, const char *problem,
                      struct emq__arena *mem)
{
    enum { LINE_SHOWN = 200 };

    if (a->wrong.len)
        return;
    line.len = line.len > LINE_SHOWN ? LINE_SHOWN : line.len;
    a->wrong = emq__arena_printf(mem, "\"%.*s\": %s", EMQ_STR_ARG(line), problem);
    if (!a->wrong.ptr)
        a->failed = EMQ_E_NOMEM;
}

/* Only a regular file: nothing else has an end. */
static int open_file(const char *name, int *native)
{
    struct stat st;
    int fd = open(name, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);

    *native = fd < 0 ? errno : fstat(fd, &st) != 0 ? errno : S_ISREG(st.st_mode) ? 0 : EINVAL;
    if (fd >= 0 && *native != 0)
        (void)close(fd);
    return *native == 0 ? fd : -1;
}

static int read_file(const char *name, struct emq__buf *into)
{
    char chunk[16 * 1024];
    int native = 0;
    int fd = open_file(name, &native);

    for (ssize_t n = 1; fd >= 0 && n != 0 && !into->failed;) {
        n = read(fd, chunk, sizeof chunk);
        if (n < 0 && errno != EINTR) {
            native = errno;
            break;
        }
        if (n > 0)
            emq__buf_add(into, chunk, (size_t)n);
    }
    if (fd >= 0)
        (void)close(fd);
    return native;
}

/* One file; *left: bytes that all of a kind may still have. */
static emq_status read_text(const struct emq__asked_file *f, size_t *left, emq_str *text,
                            const struct emq__report *r, struct emq__exec_result *out,
                            emq_error *err)
{
    struct emq__buf b;

    emq__buf_init(&b, *left);
    int native = read_file(f->name.ptr, &b);
    if (native != 0)
        emq__exit_failed(r, out, "the effect \"%s %.300s\" was not done: %s",
                         f->sql ? "sql" : "redis", f->name.ptr,
                         native == EINVAL ? "not a file" : strerrordesc_np(native));
    else if (b.failed == EMQ_E_INVALID) {
        emq__exit_failed(r, out, "its effect was not done: its files have more than %d bytes",
                         BYTES_MAX);
        out->kind = EMQ__EXEC_FAIL; /* as all that would be refused again */
    } else if (!b.failed)
        *text = emq__arena_str(&out->mem, emq__buf_view(&b));
    bool no_memory = native == 0 && b.failed != EMQ_E_INVALID && !text->ptr;
    *left -= b.len;
    emq__buf_free(&b);
    return no_memory ? emq__no_memory("exec", err) : EMQ_OK;
}

static emq_status read_kind(const struct emq__asked *a, bool sql, const struct emq__report *r,
                            struct emq__exec_result *out, emq_error *err)
{
    emq_str *list = a->n ? emq__arena_zalloc(&out->mem, (size_t)a->n, sizeof *list) : NULL;
    size_t n = 0, left = BYTES_MAX;
    emq_status s = a->n == 0 || list ? EMQ_OK : emq__no_memory("exec", err);

    for (const struct emq__asked_file *f = a->first;
         f && s == EMQ_OK && out->kind == EMQ__EXEC_DONE; f = f->next)
        if (f->sql == sql)
            s = read_text(f, &left, &list[n++], r, out, err);
    *(sql ? &out->sql : &out->commands) = (struct emq__texts){list, n};
    return s;
}

emq_status emq__asked_read(const struct emq__asked *a, const struct emq__report *r,
                           struct emq__exec_result *out, emq_error *err)
{
    if (a->failed == EMQ_E_NOMEM)
        return emq__no_memory("exec", err);
    if (a->failed) {
        emq__exit_failed(r, out, "its effect was not done: more than %d files", FILES_MAX);
        return EMQ_OK;
    }
    if (a->wrong.len) {
        emq__exit_failed(r, out, "a line on descriptor 3 was not understood: %.*s",
                         EMQ_STR_ARG(a->wrong));
        return EMQ_OK;
    }
    emq_status s = read_kind(a, true, r, out, err);
    return s == EMQ_OK && out->kind == EMQ__EXEC_DONE ? read_kind(a, false, r, out, err) : s;
}
