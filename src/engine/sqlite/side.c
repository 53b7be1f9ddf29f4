/* SPDX-License-Identifier: MIT
 *
 * See side.h. The one invariant: bytes of the file are set by nobody while another handle may be using
 * them, but for the words themselves.
 */
#include "engine/sqlite/side.h"

#include "base/error.h"
#include "engine/sqlite/file.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

/* A page of header, then the words. */
enum { HEADER_BYTES = 4096, MAP_BYTES = HEADER_BYTES + SQ_BELLS * 4 };
struct side_header {
    char magic[8];
    _Atomic uint32_t test; /* the self-test writes here */
};
static const char side_magic[8] = "EMQBELL1";

int sq_side_open(const struct sq_file *f)
{
    struct stat db;
    int fd = sq_open(f->side, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW);

    if (fd < 0)
        return errno == EEXIST ? sq_open(f->side, O_RDWR | O_NOFOLLOW) : fd;
    /* As SQLite does for its log: whoever may use the file may use what stands beside it. */
    if (stat(f->path, &db) == 0) {
        if (geteuid() == 0)
            (void)!fchown(fd, db.st_uid, db.st_gid);
        (void)fchmod(fd, db.st_mode & 0666);
    }
    return fd;
}

/* Two mappings and the file must show the same bytes at once, and the kernel must know the page as
 * one futex: network and some user-space file systems fail here. */
static bool self_test(int fd, struct side_header *h)
{
    struct side_header *other = mmap(NULL, MAP_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    uint32_t r, back = 0;
    bool ok;

    if (other == MAP_FAILED)
        return false;
    emq__random(&r, sizeof r);
    atomic_store(&h->test, r);
    /* Another process may run its test at this moment: its value is as good as ours. */
    ok =
        pread(fd, &back, sizeof back, offsetof(struct side_header, test)) == (ssize_t)sizeof back &&
        (back == r || back == atomic_load(&h->test)) &&
        atomic_load(&other->test) == atomic_load(&h->test);
    ok = ok && syscall(SYS_futex, &h->test, FUTEX_WAKE, 0, NULL, NULL, 0) >= 0;
    (void)munmap(other, MAP_BYTES);
    return ok;
}

static bool magic_is(const struct side_header *h, const char magic[8])
{
    return memcmp(h->magic, magic, sizeof h->magic) == 0;
}

/* A new file has zeros. Anything else was damaged, or belongs to a program of another kind; it may be
 * overwritten while nobody uses it, as SQLite does with what stands beside its files. */
static bool claim(int fd, struct side_header *h)
{
    static const char empty[sizeof h->magic];

    if (magic_is(h, side_magic))
        return true;
    bool damaged = !magic_is(h, empty);
    if (damaged && !sq_ofd_lock(fd, F_WRLCK, SQ_BYTE_USER))
        return magic_is(h, side_magic); /* another has repaired it just now */
    if (damaged)
        memset(h, 0, MAP_BYTES);
    memcpy(h->magic, side_magic, sizeof side_magic);
    if (damaged)
        (void)sq_ofd_lock(fd, F_UNLCK, SQ_BYTE_USER);
    return true;
}

static void warn(const struct emq__log *log, const struct sq_file *f, const char *why)
{
    emq__log_write(log, EMQ_LOG_WARN,
                   "'%s': %s; waiting workers look at the database file instead, and programs that "
                   "wait elsewhere hear from this one up to a second late",
                   f->side, why);
}

emq_status sq_side_map(const struct sq_file *f, const struct emq__log *log, void **map,
                       _Atomic uint32_t **words, emq_error *err)
{
    int fd = sq_side_open(f), rc = 0;
    struct side_header *h = MAP_FAILED;

    *map = NULL;
    if (fd < 0) {
        rc = errno;
    } else if ((rc = posix_fallocate(fd, 0, MAP_BYTES)) == 0) {
        /* Real blocks: a hole on a full disk would be a SIGBUS at the first ring. */
        h = mmap(NULL, MAP_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        rc = h == MAP_FAILED ? errno : 0;
    }
    if (rc != 0) {
        if (fd >= 0)
            (void)close(fd);
        if (sq_short_of(rc))
            return sq_fail_path(rc, "open", f->side, err);
        warn(log, f, strerrordesc_np(rc) ? strerrordesc_np(rc) : "unknown error");
        return EMQ_OK;
    }
    bool ours = claim(fd, h);
    bool works = ours && self_test(fd, h);
    (void)close(fd); /* the mapping stays; the locks of turns have descriptors of their own */
    if (works) {
        *map = h;
        *words = (void *)((char *)h + HEADER_BYTES);
        return EMQ_OK;
    }
    (void)munmap(h, MAP_BYTES);
    if (!ours)
        warn(log, f,
             "damaged while others use it; it holds no truth: end the programs that use the queue, "
             "and delete it");
    else
        warn(log, f, "its file system has no shared memory");
    return EMQ_OK;
}

void sq_side_unmap(void *map)
{
    (void)munmap(map, MAP_BYTES);
}
