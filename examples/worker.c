/* SPDX-License-Identifier: MIT
 *
 * Runs a handler in four threads until nothing is left to do:  worker QUEUE
 *
 * cc worker.c $(pkg-config --cflags --libs echomq)
 */
#include <echomq/worker.h>
#include <stdio.h>

static emq_verdict handle(emq_job *job, void *user)
{
    emq_str data = emq_job_data(job);

    (void)user;
    printf("job %s, attempt %d: %.*s\n", emq_job_id(job).ptr, (int)emq_job_attempts_made(job) + 1,
           (int)data.len, data.ptr);
    if (emq_job_set_result(job, emq_cstr("\"done\""), NULL) != EMQ_OK)
        return EMQ_RETRY;
    return EMQ_DONE;
}

int main(int argc, char **argv)
{
    emq_client *c;
    emq_worker *w;
    emq_error err;
    emq_worker_queue queue = {.size = sizeof queue};
    const emq_worker_queue *queues[] = {&queue};
    emq_worker_opts opts = {.size = sizeof opts};

    if (argc != 2)
        return fprintf(stderr, "usage: worker QUEUE\n"), 64;
    if (emq_open(&c, emq_cstr(NULL), NULL, &err) != EMQ_OK)
        return fprintf(stderr, "%s: %s\n", err.where, err.text), 69;
    queue.name = emq_cstr(argv[1]);
    opts.queues = queues;
    opts.n_queues = 1;
    opts.handler = handle;
    opts.concurrency = 4;
    opts.exit_when_empty = 1;
    emq_status s = emq_worker_start(&w, c, &opts, &err);
    if (s == EMQ_OK) {
        s = emq_worker_join(w, -1, &err);
        emq_worker_free(w);
    }
    if (s != EMQ_OK)
        fprintf(stderr, "%s: %s\n", err.where, err.text);
    emq_close(c);
    return s != EMQ_OK;
}
