/* SPDX-License-Identifier: MIT
 *
 * What cells with contenders of their own need of store.c and bare.c.
 */
#ifndef EMQ_BENCH_STORE_H
#define EMQ_BENCH_STORE_H

#include "bench.h"

#include <echomq/echomq.h>

#define QUEUE emq_cstr("q")

emq_client *emq_open_plan(const struct plan *p); /* dies when it can't */
emq_add_opts emq_opts_plan(const struct plan *p);
void emq_must(emq_status s, const emq_error *err);
emq_str job_data(char buf[DATA_BYTES + 1], int64_t n);

#endif
