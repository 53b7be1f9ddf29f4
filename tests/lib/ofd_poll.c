/* SPDX-License-Identifier: MIT
 *
 * Preloaded under valgrind, which runs one thread at a time and does not know that F_OFD_SETLKW may
 * block: the thread that has the lock would never get to give it back. Asks again and again instead.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <time.h>

typedef int (*fcntl_fn)(int, int, ...);

__attribute__((visibility("default"))) int fcntl64(int fd, int cmd, ...)
{
    static const struct timespec pause = {.tv_nsec = 100 * 1000};
    fcntl_fn real;
    va_list ap;
    void *arg;
    int rc;

    *(void **)&real = dlsym(RTLD_NEXT, "fcntl64");
    va_start(ap, cmd);
    arg = va_arg(ap, void *);
    va_end(ap);
    if (cmd != F_OFD_SETLKW)
        return real(fd, cmd, arg);
    while ((rc = real(fd, F_OFD_SETLK, arg)) != 0 && (errno == EAGAIN || errno == EACCES))
        (void)nanosleep(&pause, NULL);
    return rc;
}
