/* SPDX-License-Identifier: MIT
 *
 * See handler.h.
 */
#include "lab/handler.h"

#include "base/error.h"
#include "base/str.h"
#include "lab/actor.h"

#include <signal.h>
#include <unistd.h>

enum { HOUR_MS = 3600 * 1000, ARGS_MAX = 24 };
enum { UNSTARTABLE = 78 }; /* the exit code of emq work */

static const char *const modes[] = {"at-least-once", "at-most-once", "fire-and-forget"};

struct run {
    struct lab_ground *g;
    struct lab_handler *h;
    struct lab_store store;
    emq_client *c;
    pid_t pid;
    int missed; /* kills that came when it had ended */
    emq_error *err;
};

static emq_status failed(struct run *x, const char *what)
{
    char said[150];

    lab_store_said(&x->store, said, sizeof said);
    return emq__fail(x->err, EMQ_E_SYSTEM, 0, "lab", "%s%s%s", what, said[0] ? ": " : "", said);
}

static emq_status ask(struct run *x, int64_t *out)
{
    char text[100] = "";
    FILE *p = popen(x->h->check, "re");
    size_t n = p ? fread(text, 1, sizeof text - 1, p) : 0;

    while (n > 0 && (text[n - 1] == '\n' || text[n - 1] == ' '))
        n--;
    text[n] = '\0';
    const char *from = text + strspn(text, " "); /* as wc prints it */
    if (p && pclose(p) == 0 && emq__str_to_i64(emq_cstr(from), out))
        return EMQ_OK;
    return emq__fail(x->err, EMQ_E_SYSTEM, 0, "lab",
                     "the check printed \"%.40s\": it has to print a whole number, and end with 0",
                     text);
}

/* ---- workers ----------------------------------------------------------------------------- */

/* point: where it dies; LAB_UNDISTURBED: it works until nothing is left. */
static emq_status begin(struct run *x, int point, int64_t lock_ms)
{
    char url[LAB_PATH_MAX + 20], crash[40] = "", lock[30];
    const char *env[] = {url, crash, NULL};
    const char *const head[] = {x->g->exe,
                                LAB_VERB,
                                "exec",
                                "--",
                                x->g->exe,
                                "work",
                                x->store.queue,
                                "--prefix",
                                x->g->prefix,
                                "--mode",
                                modes[x->h->mode],
                                "--lock",
                                lock,
                                "--stalled-interval",
                                "100ms",
                                "--quiet",
                                "--exit-when-empty",
                                "--"};
    size_t n = EMQ_ARRAY_LEN(head), more = 0;

    while (x->h->argv[more])
        more++;
    const char **argv = calloc(n + more + 1, sizeof *argv);
    if (!argv)
        return emq__fail(x->err, EMQ_E_NOMEM, 0, "lab", "out of memory");
    memcpy(argv, head, sizeof head);
    memcpy(argv + n, x->h->argv, more * sizeof *argv);
    (void)snprintf(url, sizeof url, "EMQ_URL=%s", x->store.url);
    (void)snprintf(lock, sizeof lock, "%lldms", (long long)lock_ms);
    if (point >= 0 && point < EMQ__POINT_COUNT)
        (void)snprintf(crash, sizeof crash, "EMQ_CRASH_AT=P%d", point);
    else
        env[1] = NULL;
    int rc = lab_spawn(argv, env, x->store.log, &x->pid);
    free(argv);
    return rc == 0 ? EMQ_OK : emq__fail(x->err, EMQ_E_SYSTEM, rc, "lab", "%s", strerror(rc));
}

static bool is_begun(void *arg)
{
    struct run *x = arg;
    emq_queue_stats st = {.size = sizeof st};

    return emq_stats(x->c, emq_cstr(x->store.queue), &st, NULL) == EMQ_OK && st.total_started > 0;
}

static emq_status dies_in_the_middle(struct run *x)
{
    emq_queue_stats st = {.size = sizeof st};

    if (!lab_until(is_begun, x, HOUR_MS, &x->g->stop))
        return failed(x, "stopped");
    (void)usleep((useconds_t)(x->h->run_ms * 1000 / (2 << x->missed)));
    lab_kill(x->pid);
    x->pid = 0;
    emq_status s = emq_stats(x->c, emq_cstr(x->store.queue), &st, x->err);
    if (s == EMQ_OK && st.count[EMQ_ACTIVE] == 0 && x->h->mode != EMQ_FIRE_AND_FORGET)
        x->missed++;
    return s;
}

static emq_status dies(struct run *x, int point)
{
    int status = 0;

    if (point == LAB_MIDDLE)
        return dies_in_the_middle(x);
    enum lab_end end = lab_wait(x->pid, HOUR_MS, &x->g->stop, &status);
    if (end == LAB_KILLED || end == LAB_EXITED)
        x->pid = 0;
    return end == LAB_KILLED && status == SIGKILL
               ? EMQ_OK
               : failed(x, "the worker did not come to its point");
}

/* 1: the job failed for good, which is no failure of ours. */
static emq_status works_off(struct run *x)
{
    int status = 0;
    enum lab_end end = lab_wait(x->pid, HOUR_MS, &x->g->stop, &status);

    if (end == LAB_KILLED || end == LAB_EXITED)
        x->pid = 0;
    if (end == LAB_EXITED && status <= 1)
        return EMQ_OK;
    x->h->unstartable = end == LAB_EXITED && status == UNSTARTABLE;
    return failed(x, x->h->unstartable ? "the program" : "the second worker did not end well");
}

/* ---- one job ----------------------------------------------------------------------------- */

static emq_status add(struct run *x)
{
    const emq_add_opts o = {.size = sizeof o,
                            .id = EMQ_STR_LIT(LAB_JOB),
                            .backoff_type = EMQ_BACKOFF_NONE,
                            .keep_completed_count = EMQ_KEEP_ALL};

    return emq_add(x->c, emq_cstr(x->store.queue), x->h->data, &o, NULL, x->err);
}

static emq_status look(struct run *x, int point, struct lab_outcome *out)
{
    emq_queue_stats st = {.size = sizeof st};
    emq_job *j = NULL;
    emq_status s = emq_stats(x->c, emq_cstr(x->store.queue), &st, x->err);

    if (s != EMQ_OK)
        return s;
    s = emq_get(x->c, emq_cstr(x->store.queue), EMQ_STR_LIT(LAB_JOB), &j, x->err);
    out->deliveries = st.total_started;
    out->state = s == EMQ_OK ? emq_job_state(j) : 0;
    if (s == EMQ_OK && point == LAB_UNDISTURBED)
        x->h->run_ms = emq_job_finished_at_ms(j) - emq_job_processed_at_ms(j);
    if (s == EMQ_OK && point == LAB_UNDISTURBED && out->state == EMQ_FAILED_STATE) {
        emq_str reason = emq_job_failed_reason(j);
        s = emq__fail(x->err, EMQ_E_SYSTEM, 0, "lab", "undisturbed the program fails too: %.*s",
                      EMQ_STR_ARG(reason));
    }
    emq_job_free(j);
    return s == EMQ_NOT_FOUND ? EMQ_OK : s;
}

/* Each undisturbed run makes the number grow by as much. */
static emq_status calibrate(struct run *x, int64_t before, int64_t after)
{
    int64_t grown = after - before;

    if (grown > 0 && (x->h->unit == 0 || x->h->unit == grown)) {
        x->h->unit = grown;
        return EMQ_OK;
    }
    return emq__fail(x->err, EMQ_E_SYSTEM, 0, "lab",
                     "the check printed %lld before and %lld after %s undisturbed run: it has to "
                     "grow with the effect, by as much each time; where an effect overwrites the "
                     "one before, let the check remove what it has counted",
                     (long long)before, (long long)after, x->h->unit ? "another" : "an");
}

static emq_status run(struct run *x, int point, struct lab_outcome *out)
{
    enum { LOCK_MS = 1000, LONG_LOCK_MS = 30000 };
    bool comes_back =
        point != LAB_UNDISTURBED && point != EMQ__P0 && point != EMQ__P4 && point != EMQ__P5;
    int64_t before = 0, after = 0;
    emq_status s = ask(x, &before);

    if (s == EMQ_OK)
        s = lab_store_client(x->g, &x->store, &x->c, x->err);
    if (s == EMQ_OK)
        s = add(x);
    if (s == EMQ_OK)
        s = begin(x, point, comes_back ? LOCK_MS : LONG_LOCK_MS);
    if (s == EMQ_OK && point != LAB_UNDISTURBED)
        s = dies(x, point);
    if (s == EMQ_OK && point != LAB_UNDISTURBED)
        s = begin(x, LAB_UNDISTURBED, LONG_LOCK_MS);
    if (s == EMQ_OK)
        s = works_off(x);
    if (s == EMQ_OK)
        s = look(x, point, out);
    if (s == EMQ_OK)
        s = ask(x, &after);
    out->effects = after - before;
    return s == EMQ_OK && point == LAB_UNDISTURBED ? calibrate(x, before, after) : s;
}

emq_status lab_handler_run(struct lab_ground *g, struct lab_handler *h, int point,
                           struct lab_outcome *out, emq_error *err)
{
    enum { TRIES = 4 };
    struct run x = {.g = g, .h = h, .err = err};
    emq_status s = EMQ_OK;

    for (int missed = -1; s == EMQ_OK && missed < x.missed && x.missed < TRIES;) {
        missed = x.missed;
        *out = (struct lab_outcome){0};
        s = lab_store_open(g, &x.store, false, err);
        if (s == EMQ_OK)
            s = run(&x, point, out);
        lab_kill(x.pid);
        emq_close(x.c);
        lab_store_close(&x.store);
        x.pid = 0;
        x.c = NULL;
    }
    return s;
}
