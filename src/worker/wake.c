/* SPDX-License-Identifier: MIT
 *
 * Futex waits. Early returns are allowed, so no result of the system call needs a reaction.
 */
#include "worker/wake.h"

#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static_assert(sizeof(atomic_int) == 4, "a futex word is 32 bits");

enum { WAIT_MAX_MS = 60 * 1000 };

void emq__wake_ring(struct emq__wake *k)
{
    int saved = errno;

    atomic_fetch_add(&k->word, 1);
    (void)syscall(SYS_futex, &k->word, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
    errno = saved;
}

void emq__wake_wait(struct emq__wake *k, int seen, int64_t ms)
{
    if (ms <= 0 || emq__wake_read(k) != seen)
        return;
    if (ms > WAIT_MAX_MS)
        ms = WAIT_MAX_MS;
    struct timespec t = {.tv_sec = ms / 1000, .tv_nsec = (long)(ms % 1000) * 1000000};
    (void)syscall(SYS_futex, &k->word, FUTEX_WAIT_PRIVATE, seen, &t, NULL, 0);
}
