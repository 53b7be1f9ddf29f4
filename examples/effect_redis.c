/* SPDX-License-Identifier: MIT
 *
 * Strength 1 on Redis: a few commands that are done in one script with the acknowledgement.
 *   effect_redis URL QUEUE        works off a queue whose jobs are amounts of money
 * Whenever this process is killed: each job is counted once.
 *
 * cc effect_redis.c $(pkg-config --cflags --libs echomq)
 */
#include <echomq/effect.h>
#include <stdio.h>

static emq_verdict handler(emq_job *job, void *user)
{
    emq_str add[] = {emq_cstr("INCRBY"), emq_cstr("bank:cents"), emq_job_data(job)};
    emq_str list[] = {emq_cstr("RPUSH"), emq_cstr("bank:jobs"), emq_job_id(job)};
    const emq_redis_command first = {sizeof first, add, 3}, second = {sizeof second, list, 3};
    const emq_redis_command *const commands[] = {&first, &second};
    emq_error err = {0};

    emq_status s = emq_effect_redis(user, job, commands, 2, NULL, &err);
    if (s == EMQ_OK)
        return EMQ_DONE; /* the job is completed already */
    fprintf(stderr, "job %s: %s\n", emq_job_id(job).ptr, s < 0 ? err.text : emq_status_text(s));
    /* Refused as it is: it would be again. */
    return s == EMQ_E_INVALID ? EMQ_FAIL : EMQ_RETRY;
}

int main(int argc, char **argv)
{
    emq_client *c;
    emq_worker *w;
    emq_error err = {0};

    if (argc != 3)
        return fprintf(stderr, "usage: effect_redis URL QUEUE\n"), 64;
    if (emq_open(&c, emq_cstr(argv[1]), NULL, &err) != EMQ_OK)
        return fprintf(stderr, "%s: %s\n", err.where, err.text), 69;
    emq_worker_queue queue = {.size = sizeof queue, .name = emq_cstr(argv[2])};
    const emq_worker_queue *queues[] = {&queue};
    emq_worker_opts opts = {.size = sizeof opts,
                            .queues = queues,
                            .n_queues = 1,
                            .handler = handler,
                            .user = c,
                            .lock_ms = 1000,
                            .stalled_interval_ms = 200,
                            .exit_when_empty = 1};
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
