/* SPDX-License-Identifier: MIT
 *
 * Takes one job, works on it and settles it, without the worker runtime:  by_hand QUEUE
 *
 * cc by_hand.c $(pkg-config --cflags --libs echomq)
 */
#include <echomq/echomq.h>
#include <stdio.h>

int main(int argc, char **argv)
{
    emq_client *c;
    emq_job *job;
    emq_error err;

    if (argc != 2)
        return fprintf(stderr, "usage: by_hand QUEUE\n"), 64;
    if (emq_open(&c, emq_cstr(NULL), NULL, &err) != EMQ_OK)
        return fprintf(stderr, "%s: %s\n", err.where, err.text), 69;

    emq_str queue = emq_cstr(argv[1]);
    emq_take_opts take = {.size = sizeof take};
    take.wait_ms = 5000;
    take.lock_ms = 60000; /* longer than the work; else emq_extend() from time to time */
    emq_status s = emq_take(c, queue, &take, &job, &err);
    if (s == EMQ_OK) {
        emq_str data = emq_job_data(job);
        printf("job %s: %.*s\n", emq_job_id(job).ptr, (int)data.len, data.ptr);

        emq_settle_opts done = {.size = sizeof done};
        done.kind = EMQ_SETTLE_COMPLETED;
        done.value = emq_cstr("{\"ok\":true}");
        s = emq_settle(c, queue, emq_job_id(job), emq_job_token(job), &done, &err);
        emq_job_free(job);
    }
    if (s != EMQ_OK)
        fprintf(stderr, "%s: %s\n", emq_status_name(s), s < 0 ? err.text : emq_status_text(s));
    emq_close(c);
    return s != EMQ_OK;
}
