/* SPDX-License-Identifier: MIT
 *
 * What is between the worker and a program: pipes, and a file in memory with the data. Our ends never
 * block and raise no signal; all are closed on exec, so that no process gets those of another one.
 */
#include "worker/exec_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

void emq__fd_close(int *fd)
{
    if (*fd >= 0)
        (void)close(*fd);
    *fd = -1;
}

int emq__pipe_open(int *out_read, int *out_write)
{
    int fds[2];

    if (pipe2(fds, O_CLOEXEC) != 0)
        return -1;
    /* The child puts its ends on 0..3: a source among them would be overwritten. */
    if (!emq__fd_move_up(&fds[0]) || !emq__fd_move_up(&fds[1])) {
        int native = errno;
        (void)close(fds[0]);
        (void)close(fds[1]);
        errno = native;
        return -1;
    }
    *out_read = fds[0];
    *out_write = fds[1];
    return 0;
}

/* Newer kernels want to be told that it is no program; older ones don't know the word. */
static int memory_file(void)
{
#ifdef MFD_NOEXEC_SEAL
    int fd = memfd_create("emq-data", MFD_CLOEXEC | MFD_NOEXEC_SEAL);
    if (fd >= 0 || errno != EINVAL)
        return fd;
#endif
    return memfd_create("emq-data", MFD_CLOEXEC);
}

static bool write_all(int fd, emq_str bytes)
{
    for (size_t at = 0; at < bytes.len;) {
        ssize_t n = pwrite(fd, bytes.ptr + at, bytes.len - at, (off_t)at);
        if (n > 0)
            at += (size_t)n;
        else if (n == 0 || errno != EINTR)
            return false;
    }
    return true;
}

int emq__input_open(emq_str bytes)
{
    int fd = memory_file();

    if (fd < 0 || (emq__fd_move_up(&fd) && write_all(fd, bytes)))
        return fd;
    int native = errno;
    (void)close(fd);
    errno = native;
    return -1;
}

bool emq__fd_nonblock(int fd)
{
    int flags = fcntl(fd, F_GETFL);

    return flags >= 0 && fcntl(fd, F_SETFL, flags | O_NONBLOCK) == 0;
}

bool emq__pipe_write(int fd, emq_str *left)
{
    sigset_t broken, old;
    const struct timespec now = {0, 0};
    bool there = true;

    /* A reader that is gone is an answer, not a signal to the application. */
    (void)sigemptyset(&broken);
    (void)sigaddset(&broken, SIGPIPE);
    (void)pthread_sigmask(SIG_BLOCK, &broken, &old);
    while (there && left->len) {
        ssize_t n = write(fd, left->ptr, left->len);
        if (n > 0) {
            *left = emq_strn(left->ptr + n, left->len - (size_t)n);
            continue;
        }
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno != EAGAIN)
            there = false;
        break;
    }
    if (!there)
        while (sigtimedwait(&broken, NULL, &now) < 0 && errno == EINTR)
            continue;
    (void)pthread_sigmask(SIG_SETMASK, &old, NULL);
    return there;
}

ssize_t emq__pipe_read(int fd, char *chunk)
{
    for (;;) {
        ssize_t n = read(fd, chunk, EMQ__EXEC_CHUNK);
        if (n > 0)
            return n;
        if (n < 0 && errno == EINTR)
            continue;
        return n < 0 && errno == EAGAIN ? 0 : -1;
    }
}

size_t emq__pipe_holds(int fd)
{
    int n = fcntl(fd, F_GETPIPE_SZ);

    return n > 0 ? (size_t)n : EMQ__EXEC_CHUNK;
}

size_t emq__pipe_unread(int fd)
{
    int n = 0;

    return fd >= 0 && ioctl(fd, FIONREAD, &n) == 0 && n > 0 ? (size_t)n : 0;
}
