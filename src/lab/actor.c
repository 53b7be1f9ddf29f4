/* SPDX-License-Identifier: MIT
 *
 * See actor.h. The fault strikes here: in the handler, by the worker's own points (EMQ_CRASH_AT, EMQ_STOP_AT), or by
 * the decorator that loses messages.
 */
#include "lab/actor.h"
#include "lab/soak.h"

#include "base/error.h"
#include "base/str.h"
#include "client/client.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

enum { WARM_MS = 150, SOAK_MS = 4, SWEEP_MS = 60, AT_LAST_MS = 60000, STALLED_MAX = 1000000 };

struct actor {
    struct lab_role r;
    const char *url;
    struct lab_ledger ledger;
    emq_client *c;
    atomic_int asked; /* acts of the kind whose message is to be lost */
};

/* ---- roles as words ---------------------------------------------------------------------- */

#define TEXTS(X)   X(prefix) X(queue) X(dir) X(pay) X(file) X(name)
#define NUMBERS(X) X(mode) X(effect) X(fault) X(point) X(lock) X(max) X(child) X(soak)

void lab_role_write(const struct lab_role *r, const char *exe, const char *what,
                    struct lab_words *out)
{
    size_t n = 0;

#define TEXT(key) \
    if (r->key)   \
        (void)snprintf(out->text[n++], LAB_WORD_MAX, #key "=%s", r->key);
    TEXTS(TEXT)
#undef TEXT
#define NUMBER(key) (void)snprintf(out->text[n++], LAB_WORD_MAX, #key "=%lld", (long long)r->key);
    NUMBERS(NUMBER)
#undef NUMBER
    out->argv[0] = exe;
    out->argv[1] = LAB_VERB;
    out->argv[2] = what;
    for (size_t i = 0; i < n; i++)
        out->argv[3 + i] = out->text[i];
    out->argv[3 + n] = NULL;
}

static bool role_word(struct lab_role *r, const char *word)
{
    const char *equals = strchr(word, '=');
    emq_str key = emq_strn(word, equals ? (size_t)(equals - word) : 0);

#define TEXT(name)                           \
    if (equals && emq__str_is(key, #name)) { \
        r->name = equals + 1;                \
        return true;                         \
    }
    TEXTS(TEXT)
#undef TEXT
#define NUMBER(name)                       \
    if (equals && emq__str_is(key, #name)) \
        return emq__str_to_i64(emq_cstr(equals + 1), &r->name);
    NUMBERS(NUMBER)
#undef NUMBER
    return false;
}

/* ---- faults ------------------------------------------------------------------------------ */

/* Sent to the process, this thread might go on a while. */
static void strike_self(int sig)
{
    (void)pthread_kill(pthread_self(), sig);
}

/* Says where it is. */
static void arrive(const struct actor *a)
{
    char path[LAB_PATH_MAX];

    (void)snprintf(path, sizeof path, "%s/at", a->r.dir);
    (void)lab_touch(path);
}

static void strike(const struct actor *a, enum emq__point at)
{
    char path[LAB_PATH_MAX];

    if ((int64_t)at != a->r.point)
        return;
    switch (a->r.fault) {
    case LAB_KILL: strike_self(SIGKILL); break;
    case LAB_FREEZE: strike_self(SIGSTOP); break;
    case LAB_SERVER:
        arrive(a);
        (void)snprintf(path, sizeof path, "%s/go", a->r.dir);
        (void)lab_until(lab_exists, path, AT_LAST_MS, NULL);
        break;
    case LAB_CHILD:
        arrive(a);
        for (;;)
            (void)pause();
    default: break;
    }
}

/* Where the worker itself has the point. */
static bool strikes_inside(const struct lab_role *r)
{
    return (r->fault == LAB_KILL || r->fault == LAB_FREEZE) &&
           (r->effect == LAB_TRANSACTIONAL || (r->point != EMQ__P2 && r->point != EMQ__P3));
}

static void arm(const struct lab_role *r)
{
    char text[20];

    if (!strikes_inside(r))
        return;
    (void)snprintf(text, sizeof text, "P%d:%d", (int)r->point, (int)r->max);
    (void)setenv(r->fault == LAB_KILL ? "EMQ_CRASH_AT" : "EMQ_STOP_AT", text, 1);
}

/* Of the acts: the first take, or the first settlement, which may be that of a transactional effect. */
static enum emq__fault lose(void *user, const char *act)
{
    struct actor *a = user;
    bool settles = strcmp(act, "settle") == 0 || strncmp(act, "emq_effect_", 11) == 0;

    if (a->r.point < EMQ__P2 ? strcmp(act, "take") != 0 : !settles)
        return EMQ__FAULT_NONE;
    int n = atomic_fetch_add(&a->asked, 1);
    if (n == 1 && a->r.fault == LAB_LOST_ACK)
        strike_self(SIGKILL);
    if (n > 0)
        return EMQ__FAULT_NONE;
    return a->r.fault == LAB_LOST_REPLY ? EMQ__FAULT_LOSE_REPLY : EMQ__FAULT_LOSE_REQUEST;
}

static bool loses(const struct lab_role *r)
{
    return r->fault == LAB_LOST_REQUEST || r->fault == LAB_LOST_ACK || r->fault == LAB_LOST_REPLY;
}

/* ---- handlers ---------------------------------------------------------------------------- */

static int said(const char *what, const emq_error *err)
{
    (void)fprintf(stderr, LAB_VERB " %ld: %s: %s\n", (long)getpid(), what, err->text);
    return 1;
}

static emq_verdict tell(const char *what, const emq_error *err)
{
    (void)said(what, err);
    return EMQ_RETRY;
}

static emq_verdict make(emq_job *job, void *arg)
{
    struct actor *a = arg;
    emq_error err = {0};

    strike(a, EMQ__P2);
    if (lab_effect_make(&a->ledger, (int)a->r.effect, emq_job_idempotency_key(job), &err) != EMQ_OK)
        return tell("the effect", &err);
    strike(a, EMQ__P3);
    return EMQ_DONE;
}

/* Asks the other side. */
static emq_probe_answer probe(emq_job *job, void *arg)
{
    struct actor *a = arg;
    emq_error err = {0};
    int64_t n;

    (void)job;
    if (lab_effect_count(&a->ledger, (int)a->r.effect, &n, &err) != EMQ_OK) {
        (void)said("the probe", &err);
        return EMQ_PROBE_UNKNOWN;
    }
    return n > 0 ? EMQ_PROBE_HAPPENED : EMQ_PROBE_DID_NOT;
}

static emq_verdict make_marked(struct actor *a, emq_job *job)
{
    emq_error err = {0};
    const emq_effect_plan plan = {.size = sizeof plan,
                                  .effect = make,
                                  .probe = probe,
                                  .arg = a,
                                  .policy = (int32_t)a->r.effect - LAB_REDO + EMQ_DOUBT_REDO};
    emq_status s = emq_effect_run(a->c, job, &plan, &err);

    if (emq__is_failure(s))
        return tell("the marker", &err);
    return s == EMQ_OK ? EMQ_DONE : s == EMQ_PARKED ? EMQ_FAIL : EMQ_RETRY;
}

static emq_verdict make_inside(struct actor *a, emq_job *job)
{
    emq_error err = {0};

    if (a->r.fault == LAB_SERVER) {
        strike(a, EMQ__P2);
        strike(a, EMQ__P3);
    }
    emq_status s = lab_effect_commit(&a->ledger, job, &err);
    if (emq__is_failure(s))
        return tell("the transaction", &err);
    return s == EMQ_OK ? EMQ_DONE : EMQ_RETRY;
}

/* Long enough on both sides of the effect that kills strike there. */
static emq_verdict make_line(struct actor *a, emq_job *job)
{
    const struct timespec pause = {.tv_nsec = SOAK_MS * 1000000L};

    (void)nanosleep(&pause, NULL);
    bool good = lab_soak_note(a->r.dir, emq_job_id(job), emq_cstr(a->r.name));
    (void)nanosleep(&pause, NULL);
    return good ? EMQ_DONE : EMQ_RETRY;
}

static emq_verdict handle(emq_job *job, void *user)
{
    struct actor *a = user;

    if (a->r.soak)
        return make_line(a, job);
    if (emq__str_is(emq_job_id(job), LAB_WARM)) {
        (void)nanosleep(&(struct timespec){.tv_nsec = WARM_MS * 1000000L}, NULL);
        return EMQ_DONE;
    }
    if (a->r.effect == LAB_TRANSACTIONAL)
        return make_inside(a, job);
    return lab_marked((int)a->r.effect) ? make_marked(a, job) : make(job, a);
}

/* ---- the worker -------------------------------------------------------------------------- */

static const char *const policies[] = {"redo", "skip", "park", "probe"};

struct program {
    char exe[LAB_PATH_MAX], ask[LAB_PATH_MAX + 20];
    struct lab_words words;
    const char *argv[LAB_ROLE_WORDS + 16];
};

/* The program that makes the effect; where it is marked, inside of `emq effect run`. */
static bool make_program(const struct lab_role *r, struct program *p)
{
    size_t n = 0;

    if (!lab_self(p->exe))
        return false;
    lab_role_write(r, p->exe, "act", &p->words);
    if (lab_marked((int)r->effect)) {
        const char *policy = policies[r->effect - LAB_REDO];
        const char *const run[] = {p->exe, "effect", "run", "make", "--policy", policy};
        memcpy(p->argv, run, sizeof run);
        n = EMQ_ARRAY_LEN(run);
        if (r->effect == LAB_PROBE) {
            (void)snprintf(p->ask, sizeof p->ask, "test -s '%s/effects'", r->dir);
            p->argv[n++] = "--probe";
            p->argv[n++] = p->ask;
        }
        p->argv[n++] = "--";
    }
    for (size_t i = 0; p->words.argv[i]; i++)
        p->argv[n++] = p->words.argv[i];
    p->argv[n] = NULL;
    return true;
}

static void log_line(void *user, int level, emq_str message)
{
    (void)user;
    if (level <= EMQ_LOG_WARN)
        (void)fprintf(stderr, LAB_VERB " %ld: %.*s\n", (long)getpid(), EMQ_STR_ARG(message));
}

static int run_worker(struct actor *a, emq_worker_opts *o)
{
    emq_error err = {0};
    emq_worker *w = NULL;

    arm(&a->r);
    if (loses(&a->r) && emq__fault_wrap(&a->c->e, lose, a, &err) != EMQ_OK)
        return said("no faults", &err);
    if (loses(&a->r)) {
        a->c->fault = lose;
        a->c->fault_user = a;
    }
    if (emq_worker_start(&w, a->c, o, &err) != EMQ_OK)
        return said("no worker", &err);
    emq_status s = emq_worker_join(w, -1, &err);
    emq_worker_free(w);
    return s == EMQ_OK ? 0 : said("join", &err);
}

static int work(struct actor *a)
{
    const struct lab_role *r = &a->r;
    const emq_open_opts open_opts = {
        .size = sizeof open_opts, .prefix = emq_cstr(r->prefix), .log = log_line};
    const emq_worker_queue q = {.size = sizeof q, .name = emq_cstr(r->queue)};
    const emq_worker_queue *const queues[] = {&q};
    struct program program;
    emq_error err = {0};
    emq_worker_opts o = {.size = sizeof o,
                         .queues = queues,
                         .n_queues = 1,
                         .handler = handle,
                         .user = a,
                         .name = emq_cstr(r->name),
                         .lock_ms = r->lock,
                         .stalled_interval_ms = r->max ? -1 : SWEEP_MS,
                         .max_stalled = STALLED_MAX,
                         .mode = (int32_t)r->mode,
                         .exit_when_empty = r->max == 0,
                         .max_jobs = r->max};

    if (r->child) {
        if (!make_program(r, &program))
            return said("no path of this program", &err);
        o.handler = NULL;
        o.argv = program.argv;
    }
    if (emq_open(&a->c, emq_cstr(a->url), &open_opts, &err) != EMQ_OK)
        return said("no store", &err);
    a->ledger.c = a->c;
    int code = run_worker(a, &o);
    emq_close(a->c);
    return code;
}

/* ---- its program ------------------------------------------------------------------------- */

/* Hands the statement or command over, to be done with the acknowledgement. */
static int act_inside(struct actor *a)
{
    char path[LAB_PATH_MAX], line[LAB_PATH_MAX + 20];
    char *text = lab_effect_text(&a->ledger);

    (void)snprintf(path, sizeof path, "%s/effect.%ld", a->r.dir, (long)getpid());
    int n = snprintf(line, sizeof line, "%s %s\n", a->ledger.file ? "sql" : "redis", path);
    int fd = text ? open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600) : -1;
    bool good = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text) &&
                close(fd) == 0 && write(3, line, (size_t)n) == n;

    free(text);
    strike(a, EMQ__P3);
    return good ? 0 : 1;
}

static int act(struct actor *a)
{
    char path[LAB_PATH_MAX];
    emq_error err = {0};

    (void)snprintf(path, sizeof path, "%s/alive", a->r.dir);
    if (!lab_hold(path))
        return 1;
    strike(a, EMQ__P2);
    if (a->r.effect == LAB_TRANSACTIONAL)
        return act_inside(a);
    emq_str key = emq_cstr(getenv("EMQ_IDEMPOTENCY_KEY"));
    if (lab_effect_make(&a->ledger, (int)a->r.effect, key, &err) != EMQ_OK)
        return said("the effect", &err);
    strike(a, EMQ__P3);
    return 0;
}

/* ------------------------------------------------------------------------------------------ */

static int play(int (*part)(struct actor *a), const char *const *words, size_t n)
{
    struct actor a = {.r = {.fault = LAB_NO_FAULT, .point = -1}, .url = getenv("EMQ_URL")};

    for (size_t i = 0; i < n; i++) {
        if (!role_word(&a.r, words[i])) {
            (void)fprintf(stderr, LAB_VERB ": what is %s?\n", words[i]);
            return 64;
        }
    }
    if (!a.url || !a.r.prefix || !a.r.queue || !a.r.dir || !a.r.pay)
        return 64;
    a.ledger = (struct lab_ledger){
        .dir = a.r.dir, .pay = a.r.pay, .prefix = a.r.prefix, .queue = a.r.queue, .file = a.r.file};
    return part(&a);
}

int lab_actor(const char *const *words, size_t n, char *const *rest)
{
    /* That a program dies with its worker is the worker's promise, and shall not be kept by us. */
    if (strcmp(words[0], "act") == 0)
        return play(act, words + 1, n - 1);
    if (!lab_dies_with_parent()) {
        (void)fprintf(stderr, LAB_VERB ": the lab has ended\n");
        return 1;
    }
    if (strcmp(words[0], "work") == 0)
        return play(work, words + 1, n - 1);
    if (strcmp(words[0], "pay") == 0 && n == 2) {
        (void)fprintf(stderr, LAB_VERB ": %s\n", strerror(lab_pay_serve(words[1])));
        return 1;
    }
    if (strcmp(words[0], "exec") == 0 && rest && rest[0]) {
        (void)execvp(rest[0], rest);
        (void)fprintf(stderr, LAB_VERB ": %s: %s\n", rest[0], strerror(errno));
        return errno == ENOENT ? 127 : 126;
    }
    return 64;
}
