/* SPDX-License-Identifier: MIT
 *
 * Bells in the side file `<db>-emq`: 4,096 words, a queue's word is found by hash. A ring bumps the
 * word after the commit and wakes one sleeper; a waiter reads the words (its ticket) before it looks
 * for work, and sleeps only while they are unchanged: so a ring between look and sleep is seen.
 *
 * The invariant: the words hold no truth. Whatever is lost here (a collision of two queues, a side
 * file that was deleted) delays a waiter by at most SLEEP_MAX_MS.
 */
#include "engine/sqlite/ground.h"

#include "base/error.h"
#include "base/map.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { SLEEP_MAX_MS = 1000, POLL_MIN_MS = 1, POLL_MAX_MS = 50, SLICE_MS = 10 };
enum { WAIT_QUEUES_MAX = 120 }; /* the kernel waits for at most 128 words at once */

/* ---- futexes -------------------------------------------------------------------------------- */

int64_t sq_monotonic_us(void)
{
    struct timespec t = {0};

    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

static struct timespec timespec_of(int64_t us)
{
    return (struct timespec){.tv_sec = us / 1000000, .tv_nsec = us % 1000000 * 1000};
}

void sq_futex_wait(_Atomic uint32_t *word, uint32_t value, int64_t until_us, bool shared)
{
    struct timespec t = timespec_of(until_us);

    (void)syscall(SYS_futex, word, FUTEX_WAIT_BITSET | (shared ? 0 : FUTEX_PRIVATE_FLAG), value,
                  until_us > 0 ? &t : NULL, NULL, FUTEX_BITSET_MATCH_ANY);
}

void sq_futex_wake(_Atomic uint32_t *word, int n, bool shared)
{
    (void)syscall(SYS_futex, word, FUTEX_WAKE | (shared ? 0 : FUTEX_PRIVATE_FLAG), n, NULL, NULL,
                  0);
}

struct watch {
    _Atomic uint32_t *word;
    uint32_t value;
    bool shared;
};

/* Sleeps while all words have their values. */
static void wait_any(const struct watch *w, size_t n, int64_t until_us)
{
    struct futex_waitv v[WAIT_QUEUES_MAX + 2];
    struct timespec t = timespec_of(until_us);

    for (size_t i = 0; i < n; i++)
        v[i] = (struct futex_waitv){
            .uaddr = (uintptr_t)w[i].word,
            .val = w[i].value,
            .flags = (uint32_t)(FUTEX_32 | (w[i].shared ? 0 : FUTEX_PRIVATE_FLAG))};
    if (syscall(SYS_futex_waitv, v, n, 0, &t, CLOCK_MONOTONIC) >= 0 ||
        (errno != ENOSYS && errno != EPERM))
        return;
    /* A kernel or sandbox without it: one word at a time, the others are looked at in between. */
    int64_t slice = sq_monotonic_us() + SLICE_MS * 1000;
    sq_futex_wait(w[0].word, w[0].value, slice < until_us ? slice : until_us, w[0].shared);
}

/* ---- looking at the file, where bells can't cross processes ----------------------------------- */

static bool read_data_version(struct sq *s, int64_t *v)
{
    struct sq_conn *c = &s->bell.look;
    sqlite3_stmt *st;
    bool row = false;

    sq_set_enter(s);
    if (sq_conn_ready(s, c, s->sync, NULL) == EMQ_OK &&
        (st = sq_stmt(c, SQ_SQL_data_version, NULL)) != NULL &&
        sq_step(c, st, &row, "wait", NULL) == EMQ_OK && row)
        *v = sq_col_i64(st, 0);
    sq_conn_reset(c);
    sq_set_leave(s);
    return row;
}

static void look(struct sq *s)
{
    struct sq_bell *b = &s->bell;
    int64_t v;

    if (pthread_mutex_trylock(&b->mu) != 0)
        return; /* another waiter looks just now */
    if (!read_data_version(s, &v) || v != b->seen) {
        b->seen = v;
        atomic_fetch_add(&b->foreign, 1);
        sq_futex_wake(&b->foreign, INT_MAX, false);
    }
    pthread_mutex_unlock(&b->mu);
}

emq_status sq_bell_open(struct sq *s, emq_error *err)
{
    struct sq_bell *b = &s->bell;
    int rc = pthread_mutex_init(&b->mu, NULL);

    if (rc != 0)
        return emq__fail(err, EMQ_E_SYSTEM, rc, "open", "mutex");
    emq_status st =
        sq_in_memory(s) ? EMQ_OK : sq_side_map(&s->file, &s->log, &b->map, &b->words, err);
    b->poll = !b->map && !sq_in_memory(s);
    if (st == EMQ_OK && !b->map && !(b->words = calloc(SQ_BELLS, sizeof *b->words)))
        st = emq__fail(err, EMQ_E_NOMEM, 0, "open", "bells");
    if (st != EMQ_OK)
        pthread_mutex_destroy(&b->mu);
    else if (b->poll)
        (void)read_data_version(s, &b->seen);
    return st;
}

void sq_bell_close(struct sq_bell *b, bool forked)
{
    if (b->map)
        sq_side_unmap(b->map);
    else
        free(b->words);
    if (!forked)
        pthread_mutex_destroy(&b->mu);
    b->map = NULL;
    b->words = NULL;
}

/* ---- ringing -------------------------------------------------------------------------------- */

/* The same in every process and version: the words are shared. */
static uint32_t word_of(emq_str prefix, emq_str queue)
{
    uint64_t h = emq__hash(prefix) * UINT64_C(0x9e3779b97f4a7c15) ^ emq__hash(queue);

    h ^= h >> 32;
    h *= UINT64_C(0x9e3779b97f4a7c15);
    return (uint32_t)(h >> 52);
}

static void mark(uint64_t *set, uint32_t word)
{
    set[word / 64] |= UINT64_C(1) << word % 64;
}

void sq_ring_later(struct sq_tx *tx, emq_str prefix, emq_str queue)
{
    if (!tx->rings)
        return;
    mark(tx->rings->one, word_of(prefix, queue));
    tx->rings->any = true;
}

/* "<queue>:events": no queue name has a colon. */
static uint32_t events_word(emq_str prefix, emq_str queue)
{
    char name[EMQ_QUEUE_NAME_MAX + sizeof EMQ__BELL_EVENTS];
    size_t n = queue.len < EMQ_QUEUE_NAME_MAX ? queue.len : EMQ_QUEUE_NAME_MAX;

    memcpy(name, queue.ptr, n);
    memcpy(name + n, EMQ__BELL_EVENTS, sizeof EMQ__BELL_EVENTS - 1);
    return word_of(prefix, emq_strn(name, n + sizeof EMQ__BELL_EVENTS - 1));
}

void sq_ring_events_later(struct sq_tx *tx, emq_str prefix, emq_str queue)
{
    if (!tx->rings || queue.len == 0)
        return;
    mark(tx->rings->all, events_word(prefix, queue));
    tx->rings->any = true;
}

static void ring(struct sq_bell *b, uint32_t word, int n)
{
    atomic_fetch_add(&b->words[word], 1);
    sq_futex_wake(&b->words[word], n, b->map != NULL);
}

static void ring_set(struct sq_bell *b, const uint64_t *set, int n)
{
    for (uint32_t i = 0; i < SQ_BELLS / 64; i++)
        for (uint64_t left = set[i]; left != 0; left &= left - 1)
            ring(b, i * 64 + (uint32_t)__builtin_ctzll(left), n);
}

void sq_bell_ring(struct sq *s, const struct sq_rings *r)
{
    if (!r->any)
        return;
    ring_set(&s->bell, r->all, INT_MAX);
    ring_set(&s->bell, r->one, 1);
}

emq_status sq_act_wake(struct emq__engine *e, const struct emq__wake_req *req,
                       struct emq__wake_res *res, struct emq__arena *mem, emq_error *err)
{
    struct sq *s = (struct sq *)e;
    emq_status st = sq_check_fork(s, err);

    (void)mem;
    if (st != EMQ_OK)
        return st;
    ring(&s->bell, word_of(req->prefix, req->queue), INT_MAX);
    if (req->queue.len > 0)
        ring(&s->bell, events_word(req->prefix, req->queue), INT_MAX);
    res->now_ms = sq_now_ms(s);
    return EMQ_OK;
}

/* ---- waiting -------------------------------------------------------------------------------- */

uint64_t sq_ticket(struct emq__engine *e, emq_str prefix, const emq_str *queues, size_t n)
{
    struct sq_bell *b = &((struct sq *)e)->bell;
    uint64_t sum = atomic_load(&b->foreign);

    /* Every word only grows: the sum is unchanged only if each of them is. */
    for (size_t i = 0; i < n; i++)
        sum += atomic_load(&b->words[word_of(prefix, queues[i])]);
    return sum;
}

void sq_interrupt(struct emq__engine *e)
{
    struct sq_bell *b = &((struct sq *)e)->bell;
    int keep = errno; /* may run in a signal handler */

    atomic_fetch_add(&b->interrupts, 1);
    sq_futex_wake(&b->interrupts, INT_MAX, false);
    errno = keep;
}

/* Fills the watch list with what the words are now, and sums them up as a ticket does. */
static size_t watch_words(struct sq_bell *b, const struct emq__wait_req *req, struct watch *w,
                          uint64_t *sum)
{
    size_t n = 0;

    w[n++] = (struct watch){&b->interrupts, atomic_load(&b->interrupts), false};
    w[n++] = (struct watch){&b->foreign, atomic_load(&b->foreign), false};
    *sum = w[1].value;
    for (size_t i = 0; i < req->n; i++) {
        _Atomic uint32_t *word = &b->words[word_of(req->prefix, req->queues[i])];
        uint32_t v = atomic_load(word);
        *sum += v;
        if (i < WAIT_QUEUES_MAX) /* the rest is looked at once a slice */
            w[n++] = (struct watch){word, v, b->map != NULL};
    }
    return n;
}

static bool cancelled(const struct emq__wait_req *req)
{
    return req->cancelled && atomic_load(req->cancelled) != 0;
}

static int64_t nap_end(const struct sq_bell *b, const struct emq__wait_req *req, int64_t *poll_ms,
                       int64_t end)
{
    int64_t nap = end;

    if (b->poll) {
        nap = sq_monotonic_us() + *poll_ms * 1000;
        *poll_ms = *poll_ms * 2 < POLL_MAX_MS ? *poll_ms * 2 : POLL_MAX_MS;
    } else if (req->n > WAIT_QUEUES_MAX) {
        nap = sq_monotonic_us() + SLICE_MS * 1000;
    }
    return nap < end ? nap : end;
}

emq_status sq_act_wait(struct emq__engine *e, const struct emq__wait_req *req,
                       struct emq__wait_res *res, struct emq__arena *mem, emq_error *err)
{
    struct sq *s = (struct sq *)e;
    struct sq_bell *b = &s->bell;
    struct watch w[WAIT_QUEUES_MAX + 2];
    int64_t poll_ms = POLL_MIN_MS;
    int64_t ms = req->timeout_ms < SLEEP_MAX_MS ? req->timeout_ms : SLEEP_MAX_MS;
    int64_t end = sq_monotonic_us() + (ms > 0 ? ms * 1000 : 0);
    emq_status st = sq_check_fork(s, err);

    (void)mem;
    while (st == EMQ_OK) {
        uint64_t sum;
        size_t n = watch_words(b, req, w, &sum);
        if (cancelled(req)) {
            st = EMQ_CANCELLED;
            /* A ring that woke this thread and not another is passed on. */
            for (size_t i = 2; sum != req->ticket && i < n; i++)
                sq_futex_wake(w[i].word, 1, w[i].shared);
        } else if (sum != req->ticket) {
            break;
        } else if (sq_monotonic_us() >= end) {
            st = EMQ_TIMEOUT;
        } else {
            wait_any(w, n, nap_end(b, req, &poll_ms, end));
            if (b->poll)
                look(s);
        }
    }
    res->now_ms = sq_now_ms(s);
    return st;
}
