/* SPDX-License-Identifier: MIT
 *
 * The server of the redis cell: one for all laps, on a free port, in the options' folder, bound to
 * CPU 0. It dies with the program.
 */
#ifndef EMQ_BENCH_SERVER_H
#define EMQ_BENCH_SERVER_H

#include "bench.h"

const struct place *server_place(const struct options *o); /* starts it at the first call */
void server_version(char out[80]);

#endif
