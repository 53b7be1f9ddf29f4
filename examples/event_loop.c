/* SPDX-License-Identifier: MIT
 *
 * A queue inside an event loop: one thread, poll(), no blocking take.  event_loop QUEUE
 * Ends after five seconds without work.
 *
 * cc event_loop.c $(pkg-config --cflags --libs echomq)
 */
#include <echomq/echomq.h>
#include <poll.h>
#include <stdio.h>
#include <unistd.h>

static emq_status work_off(emq_client *c, emq_str queue, int *idle, emq_error *err)
{
    emq_job *job;
    emq_status s;

    while ((s = emq_take(c, queue, NULL, &job, err)) == EMQ_OK) {
        emq_settle_opts done = {.size = sizeof done};
        done.kind = EMQ_SETTLE_COMPLETED;
        printf("job %s\n", emq_job_id(job).ptr);
        s = emq_settle(c, queue, emq_job_id(job), emq_job_token(job), &done, err);
        emq_job_free(job);
        *idle = 0;
        if (s < 0)
            return s;
    }
    return s == EMQ_EMPTY ? EMQ_OK : s;
}

int main(int argc, char **argv)
{
    emq_client *c;
    emq_error err;
    int fd = -1, idle = 0;

    if (argc != 2)
        return fprintf(stderr, "usage: event_loop QUEUE\n"), 64;
    if (emq_open(&c, emq_cstr(NULL), NULL, &err) != EMQ_OK)
        return fprintf(stderr, "%s: %s\n", err.where, err.text), 69;
    emq_status s = emq_fd(c, emq_cstr(argv[1]), &fd, &err);
    while (s == EMQ_OK && idle++ < 5) {
        struct pollfd p = {.fd = fd, .events = POLLIN}; /* with the loop's other descriptors */
        uint64_t count;
        if (poll(&p, 1, 1000) > 0 && read(fd, &count, sizeof count) == (ssize_t)sizeof count)
            s = work_off(c, emq_cstr(argv[1]), &idle, &err);
    }
    if (s != EMQ_OK)
        fprintf(stderr, "%s: %s\n", err.where, err.text);
    emq_close(c);
    return s != EMQ_OK;
}
