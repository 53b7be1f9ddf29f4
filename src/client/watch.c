/* SPDX-License-Identifier: MIT
 *
 * emq_fd(): one thread a queue waits at the bell and makes an eventfd readable. It looks at nothing
 * in the store: a signal only means "look".
 */
#include "client/client.h"

#include "base/error.h"
#include "base/str.h"

#include <errno.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum { WAIT_MS = 1000 };

struct emq__watch {
    struct emq__watch *next;
    emq_client *c;
    char *queue;
    size_t queue_len;
    int fd;
    atomic_int stop;
    pthread_t thread;
};

static void make_readable(int fd)
{
    uint64_t one = 1;

    /* EAGAIN: the counter is at its top, so it is readable already. */
    while (write(fd, &one, sizeof one) < 0 && errno == EINTR)
        ;
}

static void *watch_run(void *arg)
{
    struct emq__watch *w = arg;
    struct emq__engine *e = w->c->e;
    emq_str queue = emq_strn(w->queue, w->queue_len);

    while (!atomic_load(&w->stop)) {
        struct emq__arena mem = {0};
        struct emq__wait_res res;
        struct emq__wait_req req = {
            .prefix = w->c->prefix,
            .queues = &queue,
            .n = 1,
            /* Before the signal: what comes while the reader looks rings again. */
            .ticket = e->ops->ticket(e, w->c->prefix, &queue, 1),
            .timeout_ms = WAIT_MS,
            .cancelled = &w->stop,
        };
        make_readable(w->fd);
        emq_status s = e->ops->wait(e, &req, &res, &mem, NULL);
        emq__arena_free(&mem);
        /* A bell that can't be waited at: the promise is one look a second. */
        for (int i = 0; emq__is_failure(s) && i < 10 && !atomic_load(&w->stop); i++)
            (void)usleep(WAIT_MS * 1000 / 10);
    }
    return NULL;
}

/* Starts the thread with all signals blocked: the application's handlers never run in it. */
static emq_status watch_start(struct emq__watch *w, emq_error *err)
{
    sigset_t all, before;

    (void)sigfillset(&all);
    int rc = pthread_sigmask(SIG_SETMASK, &all, &before);
    if (rc == 0) {
        rc = pthread_create(&w->thread, NULL, watch_run, w);
        (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    }
    if (rc)
        return emq__fail(err, EMQ_E_SYSTEM, rc, "emq_fd", "can't start a thread: %s",
                         strerrordesc_np(rc));
    (void)pthread_setname_np(w->thread, "emq-watch");
    return EMQ_OK;
}

static void watch_free(struct emq__watch *w)
{
    if (w->fd >= 0)
        (void)close(w->fd);
    free(w->queue);
    free(w);
}

static emq_status watch_open(emq_client *c, emq_str queue, struct emq__watch **out, emq_error *err)
{
    struct emq__watch *w = calloc(1, sizeof *w);
    emq_status s = EMQ_OK;

    if (!w)
        return emq__no_memory("emq_fd", err);
    w->c = c;
    w->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (w->fd < 0) {
        int native = errno;
        s = emq__fail(err, EMQ_E_SYSTEM, native, "emq_fd", "can't make an eventfd: %s",
                      strerrordesc_np(native));
        goto fail;
    }
    w->queue = emq__str_dup(queue);
    w->queue_len = queue.len;
    if (!w->queue) {
        s = emq__no_memory("emq_fd", err);
        goto fail;
    }
    s = watch_start(w, err);
    if (s != EMQ_OK)
        goto fail;
    *out = w;
    return EMQ_OK;

fail:
    watch_free(w);
    return s;
}

emq_status emq_fd(emq_client *c, emq_str queue, int *out_fd, emq_error *err)
{
    struct emq__watch *w;

    emq_status s = emq__client_check_queue(c, queue, "emq_fd", err);
    if (s == EMQ_OK && !out_fd)
        s = emq__fail(err, EMQ_E_INVALID, 0, "emq_fd", "out_fd is NULL");
    if (s != EMQ_OK)
        return s;
    (void)pthread_mutex_lock(&c->mu);
    for (w = c->watches; w; w = w->next) {
        if (emq__str_eq(emq_strn(w->queue, w->queue_len), queue))
            break;
    }
    if (!w) {
        s = watch_open(c, queue, &w, err);
        if (s == EMQ_OK) {
            w->next = c->watches;
            c->watches = w;
        }
    }
    if (s == EMQ_OK)
        *out_fd = w->fd;
    (void)pthread_mutex_unlock(&c->mu);
    return s;
}

void emq__watch_close_all(emq_client *c, bool forked)
{
    struct emq__watch *w;

    if (!forked && c->watches) {
        for (w = c->watches; w; w = w->next)
            atomic_store(&w->stop, 1);
        c->e->ops->interrupt(c->e);
    }
    while ((w = c->watches) != NULL) {
        c->watches = w->next;
        if (!forked)
            (void)pthread_join(w->thread, NULL);
        watch_free(w);
    }
}
