/* SPDX-License-Identifier: MIT
 *
 * The redis cell of a build without that engine.
 */
#include "bench.h"

#include <stdio.h>

void cell_redis(const struct options *o)
{
    (void)o;
    (void)fputs("emq-bench: redis: left out, this build has no Redis engine (libhiredis-dev)\n",
                stderr);
}
