/* SPDX-License-Identifier: MIT
 *
 * Workers under test: an SQLite file with faults by plan, a handler that does what the job's data
 * says, and waiting for conditions with a generous deadline. WF_ON_NAIVE: over the model engine;
 * EMQ_TEST_ENGINE=redis|valkey: over such a server, else over an SQLite file.
 *
 * Data of a job, words separated by spaces, done in order:
 *   done | fail | retry | back     the verdict (done when none)
 *   after MS                       emq_job_set_retry_after()
 *   result TEXT | reason TEXT      one word
 *   hold                           until probe.gate is opened or the job is cancelled
 *   hold!                          until probe.gate is opened, whatever is asked
 *   burn MS                        uses the CPU for so long, asking nothing
 *   tell TEXT                      progress (a JSON word); log TEXT; data TEXT
 */
#ifndef EMQ_TESTS_WORKER_FIXTURE_H
#define EMQ_TESTS_WORKER_FIXTURE_H

#include "lib/test.h"
#include "worker/runtime.h"

#define S(text) emq_cstr(text)
#define NONE    emq_strn("", 0)
enum { PATIENCE_MS = 30000, RUNS_MAX = 20000, ORDER_MAX = 1 << 16 };

/* Polls every 2 ms: the condition decides, never the time. */
#define WAIT_FOR(condition)                                                                    \
    do {                                                                                       \
        int64_t wait_until_ = emq__mono_now().us / 1000 + PATIENCE_MS;                         \
        while (!(condition)) {                                                                 \
            if (emq__mono_now().us / 1000 > wait_until_)                                       \
                fail_msg("%s:%d: waited %d s for: %s", __FILE__, __LINE__, PATIENCE_MS / 1000, \
                         #condition);                                                          \
            wf_nap(2);                                                                         \
        }                                                                                      \
    } while (0)
/* Between conditions that prove an absence. */
void wf_nap(int64_t ms);

/* ---- faults ------------------------------------------------------------------------------ */

struct wf_fault {
    const char *act;
    atomic_int fault; /* an emq__fault */
    atomic_int times; /* -1 = always */
    atomic_int delay_ms;
    atomic_int seen;
};
enum { WF_FAULTS = 8 };

struct wf {
    emq_client *c;
    char url[600];
    struct wf_fault faults[WF_FAULTS];
    atomic_int n_faults;
    atomic_int log_errors, log_warnings;
#ifdef WF_ON_NAIVE
    struct emq__engine *naive;
    pthread_t ticker;
    atomic_int ticking;
#endif
    pthread_mutex_t log_mu;
    char last_log[400]; /* log_mu */
};

/* A fresh file and a client of it. open_too: another client of the same file, without faults. */
void wf_open(struct wf *f);
emq_client *wf_client(struct wf *f);
void wf_close(struct wf *f);
/* The act's next `times` calls end so; counts its calls in any case. */
struct wf_fault *wf_fault(struct wf *f, const char *act, enum emq__fault fault, int times);

/* Is this in the last warning or error of the log? */
bool wf_logged(struct wf *f, const char *words);

/* ---- jobs -------------------------------------------------------------------------------- */

void wf_add(struct wf *f, const char *queue, const char *id, const char *data);
void wf_add_opts(struct wf *f, const char *queue, const char *id, const char *data, emq_add_opts o);
void wf_add_n(struct wf *f, const char *queue, int n, const char *data); /* ids j1… */
int wf_state(struct wf *f, const char *queue, const char *id);           /* 0 = no such job */
int64_t wf_count(struct wf *f, const char *queue, int state);
emq_job *wf_get(struct wf *f, const char *queue, const char *id);
/* "failed: reason" | "completed: result" | the state's name; static text. */
const char *wf_end(struct wf *f, const char *queue, const char *id);
/* Takes a job as a worker that will not come back. */
void wf_orphan(struct wf *f, const char *queue, int64_t lock_ms);

/* ---- probe: handler and events ----------------------------------------------------------- */

struct probe {
    pthread_mutex_t mu;
    struct emq__map runs;  /* id -> times */
    char order[ORDER_MAX]; /* "queue/id " in the order of starts */
    size_t order_len;
    char events[ORDER_MAX]; /* "started:id " … */
    size_t events_len;
    char last_text[300]; /* of the last event with a text */
    atomic_int gate, running, peak, started, ended, cancel_seen, wrong;
    atomic_int event_count[16];
    atomic_int in_event, overlaps; /* callbacks at once, of all workers of this probe */
};
void probe_init(struct probe *p);
void probe_free(struct probe *p);
int probe_runs(struct probe *p, const char *id);
emq_verdict probe_handler(emq_job *job, void *user);
void probe_event(const emq_event *e, void *user);
bool probe_saw(struct probe *p, const char *event); /* "completed:a" */

/* ---- workers ----------------------------------------------------------------------------- */

/* Options over one queue ("a") or several ("a b", or "a=3 b=1"); lock 30 s, sweep every 200 ms. The
 * names live in the struct. */
struct wf_opts {
    emq_worker_opts o;
    emq_worker_queue q[8];
    const emq_worker_queue *p[8];
    char text[256];
};
struct wf_opts *wf_opts(struct wf_opts *w, const char *queues, struct probe *p);
emq_worker *wf_start_on(emq_client *c, const struct wf_opts *o);
emq_worker *wf_start(struct wf *f, const struct wf_opts *o);
/* Waits until it ends by itself and frees it. */
void wf_finish(emq_worker *w);
/* Stops, waits, frees. */
void wf_stop(emq_worker *w, int now);
emq_worker_stats wf_stats(emq_worker *w);

/* ---- all of it --------------------------------------------------------------------------- */

struct bench {
    struct wf f;
    struct probe p;
    struct wf_opts o;
};
struct bench *bench_open(const char *queues);
void bench_close(struct bench *b); /* no handler may have seen anything wrong */
/* Runs everything there is, ends, and tells the sums. */
emq_worker_stats work_off(struct bench *b);

#endif
