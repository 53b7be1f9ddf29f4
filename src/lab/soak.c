/* SPDX-License-Identifier: MIT
 *
 * See soak.h.
 */
#include "lab/soak.h"
#include "lab/fsck.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/map.h"
#include "base/str.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>

enum {
    WORKERS = 3,
    LOCK_MS = 3000, /* longer than it takes to look what a dead worker left */
    SETTLE_MS = 20, /* what a dead one had sent arrives */
    QUIET_MS = 60000,
    BETWEEN_LOOKS_MS = 1000,
    KEEP = 1000, /* finished jobs: the ledger has them all */
    LINE_LEN = 400,
    BATCH = 500,
    LONG = 3000 /* bytes of data that do not fit into the row of their job */
};

struct soak {
    struct lab_ground *g;
    struct lab_soak *s;
    struct lab_store store;
    emq_client *c;
    struct worker {
        pid_t pid;
        char name[24];
    } workers[WORKERS];
    int started;
    emq_error *err;
    struct watch {
        pthread_t thread;
        bool begun;
        atomic_int over;
        emq_client *c;
        emq_status s;
        emq_error err;
    } watch;
};

/* ---- the ledger -------------------------------------------------------------------------- */

static void ledger_path(const char *dir, char out[LAB_PATH_MAX + 10])
{
    (void)snprintf(out, LAB_PATH_MAX + 10, "%s/lines", dir);
}

bool lab_soak_note(const char *dir, emq_str id, emq_str worker)
{
    char path[LAB_PATH_MAX + 10], line[LINE_LEN];

    ledger_path(dir, path);
    int n = snprintf(line, sizeof line, "%.*s %.*s\n", EMQ_STR_ARG(id), EMQ_STR_ARG(worker));
    int fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
    bool good = fd >= 0 && n > 0 && write(fd, line, (size_t)n) == n;
    if (fd >= 0)
        (void)close(fd);
    return good;
}

/* Has this worker made this job's effect? */
static bool has_done(const struct soak *x, emq_str id, const char *worker)
{
    char path[LAB_PATH_MAX + 10], line[LINE_LEN], wanted[LINE_LEN];
    bool found = false;

    ledger_path(x->store.dir, path);
    (void)snprintf(wanted, sizeof wanted, "%.*s %s\n", EMQ_STR_ARG(id), worker);
    FILE *f = fopen(path, "re");
    while (f && !found && fgets(line, sizeof line, f))
        found = strcmp(line, wanted) == 0;
    if (f)
        (void)fclose(f);
    return found;
}

static emq_status count(struct soak *x)
{
    char path[LAB_PATH_MAX + 10], line[LINE_LEN];
    struct emq__map seen = {0};
    bool good = true;
    int64_t lines = 0;

    ledger_path(x->store.dir, path);
    FILE *f = fopen(path, "re");
    while (f && good && fgets(line, sizeof line, f)) {
        const char *end = strchr(line, ' ');
        good = end && emq__map_put(&seen, emq_strn(line, (size_t)(end - line)), x);
        lines++;
    }
    if (f)
        (void)fclose(f);
    x->s->lost = x->s->jobs - (int64_t)seen.len;
    x->s->doubled = lines - (int64_t)seen.len;
    emq__map_free(&seen);
    return good ? EMQ_OK : emq__fail(x->err, EMQ_E_NOMEM, 0, "lab", "out of memory");
}

/* ---- jobs and workers -------------------------------------------------------------------- */

/* Of each place in line: waiting, prioritized, delayed; short data and long. */
static emq_status add_some(struct soak *x, int64_t n)
{
    enum { KINDS = 6 };
    static const char data[LONG];
    const emq_new_job *jobs[BATCH];
    emq_add_opts o[KINDS];
    emq_new_job job[KINDS];

    for (int i = 0; i < KINDS; i++) {
        o[i] = (emq_add_opts){.size = sizeof *o,
                              .backoff_type = EMQ_BACKOFF_NONE,
                              .priority = i % 3,
                              .delay_ms = i % 2 * 50,
                              .keep_completed_count = KEEP,
                              .keep_failed_count = KEEP};
        job[i] = (emq_new_job){.size = sizeof *job,
                               .queue = emq_cstr(x->store.queue),
                               .data = emq_strn(data, i == 0 ? LONG : 0),
                               .opts = &o[i]};
    }
    for (int64_t i = 0; i < n; i++)
        jobs[i] = &job[i % KINDS];
    return emq_add_many(x->c, jobs, (size_t)n, NULL, x->err);
}

static emq_status add_jobs(struct soak *x, int64_t n)
{
    emq_status s = EMQ_OK;

    for (int64_t rest = n; s == EMQ_OK && rest > 0; rest -= BATCH)
        s = add_some(x, rest < BATCH ? rest : BATCH);
    return s;
}

static emq_status begin(struct soak *x, struct worker *w)
{
    struct lab_words *words = malloc(sizeof *words);
    char url[LAB_PATH_MAX + 20];

    if (!words)
        return emq__fail(x->err, EMQ_E_NOMEM, 0, "lab", "out of memory");
    (void)snprintf(w->name, sizeof w->name, "soak-%d", x->started++);
    (void)snprintf(url, sizeof url, "EMQ_URL=%s", x->store.url);
    const struct lab_role role = {.prefix = x->g->prefix,
                                  .queue = x->store.queue,
                                  .dir = x->store.dir,
                                  .pay = x->g->pay,
                                  .name = w->name,
                                  .mode = x->s->mode,
                                  .fault = LAB_NO_FAULT,
                                  .point = -1,
                                  .lock = LOCK_MS,
                                  .soak = 1};
    lab_role_write(&role, x->g->exe, "work", words);
    int rc = lab_spawn(words->argv, (const char *const[]){url, NULL}, x->store.log, &w->pid);
    free(words);
    return rc == 0 ? EMQ_OK : emq__fail(x->err, EMQ_E_SYSTEM, rc, "lab", "%s", strerror(rc));
}

/* What the dead worker left in the store, and what that means. */
static emq_status predict(struct soak *x, const struct worker *w)
{
    emq_list *held = NULL;
    emq_status s = emq_claims(x->c, emq_cstr(w->name), &held, x->err);

    if (s != EMQ_OK)
        return s;
    for (size_t i = 0; i < emq_list_len(held); i++) {
        bool done = has_done(x, emq_job_id(emq_list_job(held, i)), w->name);
        if (x->s->mode == EMQ_AT_LEAST_ONCE)
            x->s->expected_doubled += done;
        else
            x->s->expected_lost += !done;
    }
    emq_list_free(held);
    return EMQ_OK;
}

static emq_status kill_one(struct soak *x, struct worker *w)
{
    int status = 0;

    /* One that has found nothing to do may have ended. */
    if (lab_wait(w->pid, 0, NULL, &status) == LAB_EXITED) {
        w->pid = 0;
        return status == 0
                   ? begin(x, w)
                   : emq__fail(x->err, EMQ_E_SYSTEM, 0, "lab", "a worker ended with %d", status);
    }
    lab_kill(w->pid);
    w->pid = 0;
    x->s->kills++;
    (void)usleep(SETTLE_MS * 1000);
    emq_status s = predict(x, w);
    return s == EMQ_OK ? begin(x, w) : s;
}

/* ---- fsck -------------------------------------------------------------------------------- */

static void found(void *user, const struct emq__finding *f)
{
    struct lab_soak *s = user;

    if (!s->what[0])
        (void)snprintf(s->what, sizeof s->what, "job \"%.*s\": %.*s (%.*s)", EMQ_STR_ARG(f->id),
                       EMQ_STR_ARG(f->text), EMQ_STR_ARG(f->flaw));
}

static emq_status look(struct soak *x, emq_client *c, int64_t patience_ms, emq_error *err)
{
    struct emq__fsck f = {
        .patience_ms = patience_ms, .stop = &x->g->stop, .found = found, .user = x->s};
    emq_status s = emq__fsck(c, &f, err);

    x->s->looks++;
    x->s->found += f.n_found;
    return s;
}

static bool is_over(void *over)
{
    return atomic_load((atomic_int *)over) != 0;
}

static void *watch(void *arg)
{
    struct soak *x = arg;
    struct watch *w = &x->watch;

    do
        w->s = look(x, w->c, EMQ__FSCK_PATIENCE_MS, &w->err);
    while (w->s == EMQ_OK && !lab_until(is_over, &w->over, BETWEEN_LOOKS_MS, &x->g->stop) &&
           !atomic_load(&x->g->stop));
    return NULL;
}

static emq_status watch_begin(struct soak *x)
{
    struct watch *w = &x->watch;
    emq_status s = lab_store_client(x->g, &x->store, &w->c, x->err);

    if (s != EMQ_OK)
        return s;
    int rc = pthread_create(&w->thread, NULL, watch, x);
    if (rc)
        return emq__fail(x->err, EMQ_E_SYSTEM, rc, "lab", "no thread: %s", strerror(rc));
    w->begun = true;
    return EMQ_OK;
}

static emq_status watch_end(struct soak *x)
{
    struct watch *w = &x->watch;

    atomic_store(&w->over, 1);
    if (w->begun)
        (void)pthread_join(w->thread, NULL);
    w->begun = false;
    emq_close(w->c);
    w->c = NULL;
    if (w->s != EMQ_OK && x->err)
        *x->err = w->err;
    return w->s;
}

/* ---- the whole --------------------------------------------------------------------------- */

static emq_status left(struct soak *x, int64_t *jobs)
{
    emq_queue_stats st = {.size = sizeof st};
    emq_status s = emq_stats(x->c, emq_cstr(x->store.queue), &st, x->err);

    *jobs = st.count[EMQ_WAITING] + st.count[EMQ_PRIORITIZED] + st.count[EMQ_ACTIVE] +
            st.count[EMQ_DELAYED];
    /* Nothing of it comes back: what was handed out and left no effect is gone. */
    if (s == EMQ_OK && x->s->mode == EMQ_FIRE_AND_FORGET)
        x->s->expected_lost = st.total_started;
    return s;
}

/* Kills until the time is over and nothing is left to do. */
static emq_status storm(struct soak *x)
{
    struct emq__mono end = emq__mono_add_ms(emq__mono_now(), x->s->for_ms);
    int64_t in_line = x->s->jobs, jobs = 1;
    emq_status s = EMQ_OK;

    for (;;) {
        int64_t ms = (int64_t)((0.5 + emq__random_unit()) * (double)x->s->kill_every_ms);
        if (atomic_load(&x->g->stop))
            return emq__fail(x->err, EMQ_E_SYSTEM, EINTR, "lab", "stopped");
        (void)usleep((useconds_t)(ms * 1000));
        if ((s = left(x, &jobs)) != EMQ_OK)
            return s;
        if (jobs < in_line && emq__mono_now().us < end.us) {
            if ((s = add_jobs(x, in_line - jobs)) != EMQ_OK)
                return s;
            x->s->jobs += in_line - jobs;
        } else if (jobs == 0) {
            return EMQ_OK;
        }
        struct worker *w = &x->workers[(int)(emq__random_unit() * WORKERS) % WORKERS];
        if ((s = kill_one(x, w)) != EMQ_OK)
            return s;
    }
}

static emq_status join(struct soak *x)
{
    for (int i = 0; i < WORKERS; i++) {
        int status = 0;
        if (lab_wait(x->workers[i].pid, QUIET_MS, &x->g->stop, &status) != LAB_EXITED)
            return emq__fail(x->err, EMQ_E_SYSTEM, 0, "lab", "a worker does not end (status %d)",
                             status);
        x->workers[i].pid = 0;
    }
    return EMQ_OK;
}

static emq_status run(struct soak *x)
{
    emq_status s = lab_store_client(x->g, &x->store, &x->c, x->err);
    int64_t none;

    if (s == EMQ_OK)
        s = add_jobs(x, x->s->jobs);
    for (int i = 0; s == EMQ_OK && i < WORKERS; i++)
        s = begin(x, &x->workers[i]);
    if (s == EMQ_OK)
        s = watch_begin(x);
    if (s == EMQ_OK)
        s = storm(x);
    if (s == EMQ_OK)
        s = join(x);
    if (s == EMQ_OK)
        s = watch_end(x);
    if (s == EMQ_OK)
        s = look(x, x->c, 0, x->err);
    if (s == EMQ_OK)
        s = left(x, &none);
    if (s == EMQ_OK)
        s = count(x);
    if (x->s->mode == EMQ_FIRE_AND_FORGET)
        x->s->expected_lost -= x->s->jobs - x->s->lost;
    return s;
}

emq_status lab_soak_run(struct lab_ground *g, struct lab_soak *s, emq_error *err)
{
    struct soak x = {.g = g, .s = s, .err = err};
    emq_status st = lab_store_open(g, &x.store, false, err);

    if (st == EMQ_OK)
        st = run(&x);
    for (int i = 0; i < WORKERS; i++)
        lab_kill(x.workers[i].pid);
    if (st != EMQ_OK) /* which has been told */
        x.err = NULL;
    (void)watch_end(&x);
    emq_close(x.c);
    lab_store_close(&x.store);
    return st;
}
