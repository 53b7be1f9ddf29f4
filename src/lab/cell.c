/* SPDX-License-Identifier: MIT
 *
 * See cell.h.
 *
 * The invariant: a cell counts only when its fault has struck where it should. When the machine was too slow for
 * that, say because the lock ended before the point was reached, it is run again with a longer lock.
 */
#include "lab/cell.h"

#include "base/error.h"
#include "base/str.h"

#include <pthread.h>
#include <signal.h>

enum {
    TRIES = 4,
    LOCK_MS =
        400, /* of a worker that is to lose it; longer at each try, and where programs start */
    LONG_LOCK_MS = 30000, /* of one that is not */
    STRIKE_MS = 20000,
    SECOND_MS = 15000,
    LOOK_MS = 10,
    END_MS = 20000
};

struct run {
    struct lab_ground *g;
    struct lab_result *r;
    struct lab_store store;
    struct lab_ledger ledger;
    int64_t lock_ms;
    pid_t first, second;
    emq_error err;
};

/* false, with the reason in err. */
static bool wrong(struct run *x, const char *what)
{
    if (x->err.status == 0)
        (void)emq__fail(&x->err, EMQ_E_SYSTEM, 0, "lab", "%s", what);
    return false;
}

static bool warms(const struct lab_cell *c)
{
    return c->fault == LAB_FREEZE;
}

/* ---- before and after -------------------------------------------------------------------- */

static emq_status add(emq_client *c, const char *queue, const char *id, emq_error *err)
{
    const emq_add_opts o = {.size = sizeof o,
                            .id = emq_cstr(id),
                            .backoff_type = EMQ_BACKOFF_NONE,
                            .keep_completed_count = EMQ_KEEP_ALL};

    return emq_add(c, emq_cstr(queue), EMQ_STR_LIT(""), &o, NULL, err);
}

static bool prepare(struct run *x)
{
    const struct lab_cell *c = &x->r->cell;
    emq_client *client;

    if (lab_store_open(x->g, &x->store, c->fault == LAB_SERVER, &x->err) != EMQ_OK)
        return false;
    x->ledger = (struct lab_ledger){.dir = x->store.dir,
                                    .pay = x->g->pay,
                                    .prefix = x->g->prefix,
                                    .queue = x->store.queue,
                                    .file = x->store.server ? NULL : x->store.url};
    if (lab_store_client(x->g, &x->store, &client, &x->err) != EMQ_OK)
        return false;
    emq_status s = warms(c) ? add(client, x->store.queue, LAB_WARM, &x->err) : EMQ_OK;
    if (s == EMQ_OK)
        s = add(client, x->store.queue, LAB_JOB, &x->err);
    emq_close(client);
    return s == EMQ_OK && lab_ledger_open(&x->ledger, c->effect, &x->err) == EMQ_OK;
}

static emq_status read_state(emq_client *c, const char *queue, int *out, emq_error *err)
{
    emq_job *j = NULL;
    emq_status s = emq_get(c, emq_cstr(queue), EMQ_STR_LIT(LAB_JOB), &j, err);

    *out = s == EMQ_OK ? emq_job_state(j) : 0;
    emq_job_free(j);
    return s == EMQ_NOT_FOUND ? EMQ_OK : s;
}

static bool measure(struct run *x)
{
    struct lab_outcome *seen = &x->r->seen;
    emq_queue_stats st = {.size = sizeof st};

    if (lab_store_client(x->g, &x->store, &x->ledger.c, &x->err) != EMQ_OK)
        return false;
    emq_status s = emq_stats(x->ledger.c, emq_cstr(x->store.queue), &st, &x->err);
    if (s == EMQ_OK)
        s = read_state(x->ledger.c, x->store.queue, &seen->state, &x->err);
    if (s == EMQ_OK && x->store.server)
        s = lab_effect_count(&x->ledger, x->r->cell.effect, &seen->effects, &x->err);
    emq_close(x->ledger.c);
    if (s == EMQ_OK && !x->store.server)
        s = lab_effect_count(&x->ledger, x->r->cell.effect, &seen->effects, &x->err);
    seen->deliveries = st.total_started - warms(&x->r->cell);
    return s == EMQ_OK;
}

/* ---- workers ----------------------------------------------------------------------------- */

static bool begin(struct run *x, bool first, pid_t *pid)
{
    const struct lab_cell *c = &x->r->cell;
    struct lab_words *words = malloc(sizeof *words);
    char url[LAB_PATH_MAX + 20];
    const struct lab_role role = {.prefix = x->g->prefix,
                                  .queue = x->store.queue,
                                  .dir = x->store.dir,
                                  .pay = x->g->pay,
                                  .file = x->ledger.file,
                                  .mode = c->mode,
                                  .effect = c->effect,
                                  .fault = first ? c->fault : LAB_NO_FAULT,
                                  .point = first ? c->point : -1,
                                  .lock = first ? x->lock_ms : LONG_LOCK_MS,
                                  .max = first ? 1 + warms(c) : 0,
                                  .child = c->fault == LAB_CHILD};

    if (!words)
        return wrong(x, "out of memory");
    lab_role_write(&role, x->g->exe, "work", words);
    (void)snprintf(url, sizeof url, "EMQ_URL=%s", x->store.url);
    int rc = lab_spawn(words->argv, (const char *const[]){url, NULL}, x->store.log, pid);
    free(words);
    return rc == 0 || wrong(x, strerror(rc));
}

/* Waits for one of them; once it has ended there is no pid to kill any more. */
static enum lab_end wait_for(struct run *x, pid_t *pid, int64_t ms, int *status)
{
    enum lab_end end = lab_wait(*pid, ms, &x->g->stop, status);

    if (end == LAB_EXITED || end == LAB_KILLED)
        *pid = 0;
    return end;
}

static bool ends_well(struct run *x, pid_t *pid, int64_t ms, const char *who)
{
    int status = 0;

    if (wait_for(x, pid, ms, &status) == LAB_EXITED && status == 0)
        return true;
    return wrong(x, who);
}

static bool second_works(struct run *x)
{
    /* It may have to wait for the end of the first one's lock. */
    return begin(x, false, &x->second) &&
           ends_well(x, &x->second, x->lock_ms + SECOND_MS, "the second worker did not end well");
}

/* The first hand-out is the one that was struck: its lock has not ended before. */
static bool struck_at_once(struct run *x)
{
    const struct lab_cell *c = &x->r->cell;
    emq_queue_stats st = {.size = sizeof st};
    emq_client *client;

    if (lab_store_client(x->g, &x->store, &client, &x->err) != EMQ_OK)
        return false;
    emq_status s = emq_stats(client, emq_cstr(x->store.queue), &st, &x->err);
    emq_close(client);
    if (s != EMQ_OK)
        return false;
    return st.total_started == (c->point > EMQ__P0) + warms(c) ||
           wrong(x, "the lock ended before the worker came to its point");
}

/* ---- faults ------------------------------------------------------------------------------ */

static bool dies(struct run *x)
{
    int status = 0;

    if (wait_for(x, &x->first, STRIKE_MS, &status) == LAB_KILLED && status == SIGKILL)
        return struck_at_once(x);
    return wrong(x, "the worker did not die at its point");
}

static bool arrives(struct run *x)
{
    char path[LAB_PATH_MAX + 10];
    int status = 0;

    (void)snprintf(path, sizeof path, "%s/at", x->store.dir);
    for (int looks = STRIKE_MS / LOOK_MS; looks > 0; looks--) {
        if (lab_exists(path))
            return true;
        enum lab_end end = wait_for(x, &x->first, LOOK_MS, &status);
        if (end == LAB_EXITED || end == LAB_KILLED)
            return wrong(x, "the worker ended before its handler came to its point");
    }
    return wrong(x, "the handler did not come to its point");
}

/* Past the end of its lock it would not have begun, and settled that. */
static bool has_acted(struct run *x)
{
    int64_t n = 0;

    if (x->r->cell.effect == LAB_TRANSACTIONAL) /* had it not begun, it would come to the same */
        return true;
    return (lab_effect_count(&x->ledger, x->r->cell.effect, &n, &x->err) == EMQ_OK && n > 0) ||
           wrong(x, "the lock ended before the worker came to its point");
}

/* The worker dies while its program runs, and that must not outlive it. */
static bool dies_before_its_program(struct run *x)
{
    char path[LAB_PATH_MAX + 10];

    if (!arrives(x))
        return false;
    lab_kill(x->first);
    x->first = 0;
    (void)snprintf(path, sizeof path, "%s/alive", x->store.dir);
    if (!lab_until(lab_is_free, path, END_MS, &x->g->stop))
        return wrong(x, "the program of a killed worker is still alive");
    return struck_at_once(x);
}

static bool freezes(struct run *x)
{
    int status = 0;

    if (wait_for(x, &x->first, STRIKE_MS, &status) != LAB_STOPPED)
        return wrong(x, "the worker did not freeze at its point");
    /* The frozen one may hold the file. */
    if (!struck_at_once(x) || !second_works(x))
        return false;
    if (kill(x->first, SIGCONT) != 0)
        return wrong(x, "the frozen worker is gone");
    return ends_well(x, &x->first, END_MS, "the worker that was frozen did not end well");
}

static bool loses_its_server(struct run *x)
{
    char path[LAB_PATH_MAX + 10];

    if (!arrives(x))
        return false;
    lab_kill(x->store.server_pid);
    x->store.server_pid = 0;
    (void)snprintf(path, sizeof path, "%s/go", x->store.dir);
    if (!lab_touch(path))
        return wrong(x, path);
    return lab_store_again(x->g, &x->store, &x->err) == EMQ_OK &&
           ends_well(x, &x->first, END_MS,
                     "the worker did not end well after its server's restart");
}

static bool strikes(struct run *x)
{
    switch (x->r->cell.fault) {
    case LAB_KILL: return dies(x);
    case LAB_LOST_ACK: return dies(x) && has_acted(x);
    case LAB_FREEZE: return freezes(x);
    case LAB_CHILD: return dies_before_its_program(x);
    case LAB_SERVER: return loses_its_server(x);
    default: return ends_well(x, &x->first, END_MS, "the worker did not end well");
    }
}

/* ---- a cell ------------------------------------------------------------------------------ */

static bool try_once(struct run *x)
{
    bool good =
        prepare(x) && begin(x, true, &x->first) && strikes(x) && second_works(x) && measure(x);

    lab_kill(x->first);
    lab_kill(x->second);
    x->first = x->second = 0;
    return good;
}

/* Is the job to come back by the end of its lock? */
static bool loses_its_lock(const struct lab_cell *c)
{
    if (c->fault == LAB_KILL)
        return c->point > EMQ__P0 && c->point < EMQ__P4;
    return c->fault == LAB_LOST_ACK || c->fault == LAB_FREEZE || c->fault == LAB_CHILD;
}

static int64_t first_lock(const struct lab_cell *c)
{
    if (!loses_its_lock(c))
        return LONG_LOCK_MS;
    return c->fault == LAB_CHILD ? LOCK_MS * 2 : LOCK_MS;
}

void lab_cell_run(struct lab_ground *g, struct lab_result *r)
{
    struct run x = {.g = g, .r = r, .lock_ms = first_lock(&r->cell)};
    char said[300] = "";

    (void)lab_theory(&r->cell, &r->expected, &r->why);
    if (r->cell.fault == LAB_SERVER && !g->program) {
        r->how = LAB_NOT_RUN;
        (void)snprintf(r->text, sizeof r->text,
                       "this server is not the lab's to kill: see --server");
        return;
    }
    r->how = LAB_BROKEN;
    for (int i = 0; i < TRIES && r->how == LAB_BROKEN && !atomic_load(&g->stop); i++) {
        x.err = (emq_error){0};
        if (try_once(&x))
            r->how = LAB_RAN;
        if (!lab_as_expected(r))
            lab_store_said(&x.store, said, sizeof said);
        lab_store_close(&x.store);
        x.lock_ms *= loses_its_lock(&r->cell) ? 3 : 1;
    }
    if (!lab_as_expected(r))
        (void)snprintf(r->text, sizeof r->text, "%s%s%s", x.err.text, said[0] ? "; it said: " : "",
                       said);
}

/* ---- side by side ------------------------------------------------------------------------ */

struct bench {
    struct lab_ground *g;
    struct lab_result *results;
    size_t n, next, done; /* under mu */
    lab_done_fn fn;
    void *user;
    pthread_mutex_t mu;
};

static void *run_some(void *arg)
{
    struct bench *b = arg;

    pthread_mutex_lock(&b->mu);
    while (b->next < b->n) {
        struct lab_result *r = &b->results[b->next++];
        pthread_mutex_unlock(&b->mu);
        lab_cell_run(b->g, r);
        pthread_mutex_lock(&b->mu);
        b->done++;
        if (b->fn)
            b->fn(b->done, b->user);
    }
    pthread_mutex_unlock(&b->mu);
    return NULL;
}

void lab_cells_run(struct lab_ground *g, struct lab_result *results, size_t n, int threads,
                   lab_done_fn done, void *user)
{
    enum { THREADS_MAX = 64 };
    struct bench b = {.g = g, .results = results, .n = n, .fn = done, .user = user};
    pthread_t ids[THREADS_MAX];
    int made = 0;

    (void)pthread_mutex_init(&b.mu, NULL);
    while (made < threads - 1 && made < THREADS_MAX && (size_t)made + 1 < n &&
           pthread_create(&ids[made], NULL, run_some, &b) == 0)
        made++;
    (void)run_some(&b);
    for (int i = 0; i < made; i++)
        (void)pthread_join(ids[i], NULL);
    (void)pthread_mutex_destroy(&b.mu);
}
