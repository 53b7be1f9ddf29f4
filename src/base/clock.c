/* SPDX-License-Identifier: MIT
 *
 * Clocks, randomness, and what names this process. Clocks of the running kernel can't fail.
 */
#include "base/clock.h"

#include "base/str.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

static int64_t read_us(clockid_t id)
{
    struct timespec t = {0};
    int rc = clock_gettime(id, &t);

    EMQ_ASSERT(rc == 0);
    (void)rc;
    return (int64_t)t.tv_sec * 1000000 + (int64_t)t.tv_nsec / 1000;
}

int64_t emq__wall_us(void)
{
    return read_us(CLOCK_REALTIME);
}

int64_t emq__wall_ms(void)
{
    return read_us(CLOCK_REALTIME) / 1000;
}

struct emq__mono emq__mono_now(void)
{
    return (struct emq__mono){read_us(CLOCK_BOOTTIME)};
}

/* Written once, under pthread_once. */
enum { BOOT_ID_LEN = 36 };
static char boot_id[BOOT_ID_LEN + 1];
static pthread_once_t boot_id_once = PTHREAD_ONCE_INIT;

static void boot_id_read(void)
{
    char text[BOOT_ID_LEN];
    size_t have = 0;
    int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);

    if (fd < 0)
        return;
    while (have < sizeof text) {
        ssize_t n = read(fd, text + have, sizeof text - have);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            break;
        have += (size_t)n;
    }
    (void)close(fd);
    if (have == sizeof text)
        memcpy(boot_id, text, sizeof text);
}

emq_str emq__boot_id(void)
{
    (void)pthread_once(&boot_id_once, boot_id_read);
    return emq_cstr(boot_id);
}

void emq__random(void *out, size_t n)
{
    unsigned char *p = out;

    while (n > 0) {
        ssize_t got = getrandom(p, n, 0);
        if (got > 0) {
            p += got;
            n -= (size_t)got;
        } else if (errno != EINTR) {
            /* Only a kernel older than this library, or a seccomp filter. Ids must never repeat,
             * so going on with anything less is worse than stopping. */
            abort();
        }
    }
}

double emq__random_unit(void)
{
    uint64_t r;

    emq__random(&r, sizeof r);
    return (double)(r >> 11) * 0x1p-53;
}

void emq__random_id(char out[EMQ__RANDOM_ID_LEN + 1])
{
    static const char alphabet[] = "abcdefghijklmnopqrstuvwxyz234567";
    unsigned char bytes[EMQ__RANDOM_ID_LEN];

    /* Five bits of each byte: uniform, and simpler than packing. */
    emq__random(bytes, sizeof bytes);
    for (size_t i = 0; i < EMQ__RANDOM_ID_LEN; i++)
        out[i] = alphabet[bytes[i] & 31];
    out[EMQ__RANDOM_ID_LEN] = '\0';
}

void emq__host_pid(char *out, size_t cap)
{
    enum { HOST_MAX = 80 };
    char host[HOST_MAX + 1] = "";

    /* A longer name is cut; gethostname() may then leave out the NUL. */
    if (gethostname(host, sizeof host) != 0 && errno != ENAMETOOLONG)
        host[0] = '\0';
    host[HOST_MAX] = '\0';
    for (char *p = host; *p; p++) {
        bool plain = (*p >= '0' && *p <= '9') || (*p >= 'A' && *p <= 'Z') ||
                     (*p >= 'a' && *p <= 'z') || *p == '-' || *p == '.' || *p == '_';
        if (!plain)
            *p = '_';
    }
    (void)snprintf(out, cap, "%s:%ld", host[0] ? host : "localhost", (long)getpid());
}
