/* SPDX-License-Identifier: MIT
 *
 * See exec_fake.h.
 */
#include "exec_fake.h"

#include "base/str.h"

#include <echomq/worker.h>

#include <sys/eventfd.h>
#include <unistd.h>

/* ---- the slot ----------------------------------------------------------------------------- */

struct emq__slot *fake_slot(emq_str data, int index)
{
    static atomic_int fences = 1000;
    struct emq__slot *s = calloc(1, sizeof *s);

    assert_non_null(s);
    s->job = emq__job_new();
    assert_non_null(s->job);
    s->index = index;
    s->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    assert_true(s->fd >= 0);
    s->safe_until_us = now_us() + 60 * 1000000LL;
    s->run_until_us = INT64_MAX;
    s->deadline_at_ms = 1234567890123;
    emq__buf_init(&s->log, SIZE_MAX / 2);
    emq__buf_init(&s->progress, SIZE_MAX / 2);
    s->job->rec = (struct emq__job){
        .prefix = EMQ_STR_LIT("emq"),
        .queue = EMQ_STR_LIT("q"),
        .id = EMQ_STR_LIT("7"),
        .name = EMQ_STR_LIT("a name"),
        .data = {emq__kind_of(data), data},
        .opts = EMQ_STR_LIT("{}"),
        .token = EMQ_STR_LIT("w:1000"),
        .timestamp_at_ms = 1700000000000,
        .fence = atomic_fetch_add(&fences, 1),
        .state = EMQ_ACTIVE,
        .attempts_made = 1,
        .attempts_started = 2,
    };
    s->job->slot = s;
    return s;
}

void fake_free(struct emq__slot *s)
{
    if (!s)
        return;
    emq_job_free(s->job);
    emq__buf_free(&s->log);
    emq__buf_free(&s->progress);
    (void)close(s->fd);
    free(s);
}

emq_job *emq__slot_job(struct emq__slot *s)
{
    return s->job;
}

int emq__slot_index(const struct emq__slot *s)
{
    return s->index;
}

int emq__slot_fd(const struct emq__slot *s)
{
    return s->fd;
}

int emq__slot_cancelled(struct emq__slot *s)
{
    int none = EMQ_GO_ON;
    int64_t now = now_us();

    if (now >= s->safe_until_us)
        (void)atomic_compare_exchange_strong(&s->cancel, &none, EMQ_CANCEL_LOCK_LOST);
    else if (now >= s->run_until_us)
        (void)atomic_compare_exchange_strong(&s->cancel, &none, EMQ_CANCEL_TIMEOUT);
    return s->cancel;
}

int64_t emq__slot_next_look_ms(struct emq__slot *s)
{
    int64_t next = s->safe_until_us < s->run_until_us ? s->safe_until_us : s->run_until_us;
    int64_t left = next - now_us();

    return left <= 0 ? 0 : (left + 999) / 1000;
}

struct emq__mono emq__slot_safe_until(const struct emq__slot *s)
{
    return (struct emq__mono){s->safe_until_us};
}

int64_t emq__slot_deadline_at_ms(const struct emq__slot *s)
{
    return s->deadline_at_ms;
}

/* ---- the store ---------------------------------------------------------------------------- */

emq_status emq_job_log(emq_job *job, emq_str line, emq_error *err)
{
    struct emq__slot *s = job->slot;

    (void)err;
    s->entries++;
    if (s->store == EMQ_OK) {
        emq__buf_str(&s->log, line);
        emq__buf_char(&s->log, '\n');
    }
    return s->store;
}

emq_status emq_job_report_progress(emq_job *job, emq_str json, emq_error *err)
{
    struct emq__slot *s = job->slot;

    (void)err;
    s->progresses++;
    emq__buf_clear(&s->progress);
    emq__buf_str(&s->progress, json);
    return s->store;
}

bool has(emq_str s, const char *part)
{
    return s.len && memmem(s.ptr, s.len, part, strlen(part)) != NULL;
}

/* ---- the rig ------------------------------------------------------------------------------ */

struct rig *rig_open(const char *const *argv, bool stream)
{
    struct rig *r = calloc(1, sizeof *r);
    struct emq__exec_config cfg = {.argv = argv,
                                   .url = EMQ_STR_LIT("sqlite:/tmp/x.db"),
                                   .prefix = EMQ_STR_LIT("emq"),
                                   .worker = EMQ_STR_LIT("host:1:1"),
                                   .concurrency = 8,
                                   .stream = stream};

    assert_non_null(r);
    CHECK_STATUS_ERR(emq__exec_open(&r->x, &cfg, &r->err), EMQ_OK, &r->err);
    return r;
}

struct rig *rig_sh(const char *script)
{
    const char *argv[] = {"sh", "-c", script, NULL};

    return rig_open(argv, false);
}

enum emq__exec_kind rig_sh_run(struct rig **out, const char *script)
{
    *out = rig_sh(script);
    return rig_run(*out, EMQ_STR_LIT("data"));
}

struct rig *rig_sh_stream(const char *script)
{
    const char *argv[] = {"sh", "-c", script, NULL};

    return rig_open(argv, true);
}

void rig_slot(struct rig *r, emq_str data)
{
    fake_free(r->s);
    r->s = fake_slot(data, 0);
}

enum emq__exec_kind rig_run(struct rig *r, emq_str data)
{
    if (!r->s || r->res.kind)
        rig_slot(r, data);
    emq__arena_free(&r->res.mem);
    r->res = (struct emq__exec_result){0};
    r->status = emq__exec_run(r->x, r->s, &r->res, &r->err);
    CHECK_STATUS_ERR(r->status, EMQ_OK, &r->err);
    return r->res.kind;
}

void rig_close(struct rig *r)
{
    emq__exec_close(r->x);
    emq__arena_free(&r->res.mem);
    fake_free(r->s);
    free(r);
}
