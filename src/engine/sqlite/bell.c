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
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { SLEEP_MAX_MS = 1000, POLL_MIN_MS = 1, POLL_MAX_MS = 50, SLICE_MS = 10 };
enum { WAIT_QUEUES_MAX = 120 }; /* the kernel waits for at most 128 words at once */

/* The side file: a page of header, then the words. */
enum { HEADER_BYTES = 4096, MAP_BYTES = HEADER_BYTES + SQ_BELLS * 4 };
struct side_header {
    char magic[8];
    _Atomic uint32_t test; /* the self-test writes here */
};
static const char side_magic[8] = "EMQBELL1";

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

/* ---- side file ------------------------------------------------------------------------------ */

/* Two mappings and the file must show the same bytes at once, and the kernel must know the page as
 * one futex: network and some user-space file systems fail here. */
static bool self_test(int fd, struct side_header *h)
{
    struct side_header *other = mmap(NULL, MAP_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    uint32_t r, back = 0;
    bool ok;

    if (other == MAP_FAILED)
        return false;
    emq__random(&r, sizeof r);
    atomic_store(&h->test, r);
    /* Another process may run its test at this moment: its value is as good as ours. */
    ok =
        pread(fd, &back, sizeof back, offsetof(struct side_header, test)) == (ssize_t)sizeof back &&
        (back == r || back == atomic_load(&h->test)) &&
        atomic_load(&other->test) == atomic_load(&h->test);
    ok = ok && syscall(SYS_futex, &h->test, FUTEX_WAKE, 0, NULL, NULL, 0) >= 0;
    (void)munmap(other, MAP_BYTES);
    return ok;
}

int sq_side_open(const struct sq *s)
{
    struct stat db;
    int fd = open(s->file.side, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);

    if (fd < 0)
        return errno == EEXIST ? open(s->file.side, O_RDWR | O_CLOEXEC | O_NOFOLLOW) : fd;
    /* As SQLite does for its log: whoever may use the file may use what stands beside it. */
    if (stat(s->file.path, &db) == 0) {
        if (geteuid() == 0)
            (void)!fchown(fd, db.st_uid, db.st_gid);
        (void)fchmod(fd, db.st_mode & 0666);
    }
    return fd;
}

static void *map_side(const struct sq *s)
{
    int fd = sq_side_open(s);
    void *map = MAP_FAILED;

    if (fd < 0)
        return NULL;
    /* Real blocks: a hole on a full disk would be a SIGBUS at the first ring. */
    if (posix_fallocate(fd, 0, MAP_BYTES) == 0)
        map = mmap(NULL, MAP_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (map != MAP_FAILED) {
        struct side_header *h = map;
        char empty[sizeof h->magic] = {0};
        if (memcmp(h->magic, empty, sizeof empty) == 0)
            memcpy(h->magic, side_magic, sizeof side_magic);
        if (memcmp(h->magic, side_magic, sizeof side_magic) != 0 || !self_test(fd, h)) {
            (void)munmap(map, MAP_BYTES);
            map = MAP_FAILED;
        }
    }
    (void)close(fd); /* the mapping stays; OFD locks of the turns have descriptors of their own */
    return map == MAP_FAILED ? NULL : map;
}

/* ---- looking at the file, where bells can't cross processes ----------------------------------- */

static bool read_data_version(struct sq *s, int64_t *v)
{
    struct sq_bell *b = &s->bell;
    sqlite3_stmt *st = NULL;
    bool ok = false;

    sq_set_enter(s);
    if (sq_conn_ready(s, &b->look, s->sync, NULL) == EMQ_OK &&
        sqlite3_prepare_v2(b->look.db, "PRAGMA data_version", -1, &st, NULL) == SQLITE_OK &&
        sqlite3_step(st) == SQLITE_ROW) {
        *v = sqlite3_column_int64(st, 0);
        ok = true;
    }
    (void)sqlite3_finalize(st);
    sq_set_leave(s);
    return ok;
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
    if (!sq_in_memory(s)) {
        b->map = map_side(s);
        b->poll = !b->map;
    }
    if (b->map) {
        b->words = (void *)((char *)b->map + HEADER_BYTES);
        return EMQ_OK;
    }
    b->words = calloc(SQ_BELLS, sizeof *b->words);
    if (!b->words)
        return emq__fail(err, EMQ_E_NOMEM, 0, "open", "bells");
    if (b->poll) {
        emq__log_write(
            &s->log, EMQ_LOG_WARN,
            "no shared memory in '%s': waiting workers look at the file every %d to %d ms",
            s->file.side, POLL_MIN_MS, POLL_MAX_MS);
        (void)read_data_version(s, &b->seen);
    }
    return EMQ_OK;
}

void sq_bell_close(struct sq_bell *b, bool forked)
{
    if (b->map)
        (void)munmap(b->map, MAP_BYTES);
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
