/* SPDX-License-Identifier: MIT
 *
 * Adds one job and prints its id:  add QUEUE DATA
 *
 * cc add.c $(pkg-config --cflags --libs echomq)
 */
#include <echomq/echomq.h>
#include <stdio.h>

int main(int argc, char **argv)
{
    emq_client *c;
    emq_error err;
    emq_added added = {.size = sizeof added};
    emq_add_opts opts = {.size = sizeof opts};

    if (argc != 3)
        return fprintf(stderr, "usage: add QUEUE DATA\n"), 64;
    if (emq_open(&c, emq_cstr(NULL), NULL, &err) != EMQ_OK)
        return fprintf(stderr, "%s: %s\n", err.where, err.text), 69;
    opts.attempts = 5;
    emq_status s = emq_add(c, emq_cstr(argv[1]), emq_cstr(argv[2]), &opts, &added, &err);
    if (s == EMQ_OK)
        printf("%s\n", added.id);
    else
        fprintf(stderr, "%s: %s\n", emq_status_name(s), s < 0 ? err.text : emq_status_text(s));
    emq_close(c);
    return s != EMQ_OK;
}
