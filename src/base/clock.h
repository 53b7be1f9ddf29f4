/* SPDX-License-Identifier: MIT
 *
 * Clocks and randomness. Wall instants are int64 milliseconds; instants of the clock that counts
 * suspend and never steps are a type of their own, so that the two can't be mixed.
 */
#ifndef EMQ_BASE_CLOCK_H
#define EMQ_BASE_CLOCK_H

#include "base/base.h"

struct emq__mono {
    int64_t us;
}; /* CLOCK_BOOTTIME, microseconds */

int64_t emq__wall_ms(void);
int64_t emq__wall_us(void);
struct emq__mono emq__mono_now(void);
static inline struct emq__mono emq__mono_add_ms(struct emq__mono t, int64_t ms)
{
    int64_t us;
    if (__builtin_mul_overflow(ms, (int64_t)1000, &us))
        us = ms > 0 ? INT64_MAX : INT64_MIN;
    return (struct emq__mono){emq__sat_add(t.us, us)};
}
/* Milliseconds from a to b, rounded down; negative if b is earlier. */
static inline int64_t emq__mono_diff_ms(struct emq__mono a, struct emq__mono b)
{
    int64_t us;
    if (__builtin_sub_overflow(b.us, a.us, &us))
        us = b.us > a.us ? INT64_MAX : INT64_MIN;
    return us / 1000 - (us % 1000 < 0);
}
/* The kernel's boot id, 36 characters; cached. Empty if it can't be read. */
emq_str emq__boot_id(void);

void emq__random(void *out, size_t n); /* getrandom(); never fails */
double emq__random_unit(void);         /* uniform in [0,1) */
enum { EMQ__RANDOM_ID_LEN = 20 };
void emq__random_id(char out[EMQ__RANDOM_ID_LEN + 1]); /* lower-case base32, 100 bits */

/* "host:pid", no spaces or control bytes, at most 100 bytes. */
void emq__host_pid(char *out, size_t cap);

#endif
