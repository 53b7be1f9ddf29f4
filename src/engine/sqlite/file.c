/* SPDX-License-Identifier: MIT
 *
 * Everything about the database file as a file.
 *
 * The danger: POSIX locks belong to the process, and any close() of the file anywhere in the process
 * (a handler that copies it, a second copy of SQLite) drops them all. Then another process believes
 * it is alone, checkpoints at its own close and deletes the log, and what this process commits
 * afterwards goes to a file without a name. Three things stand against that:
 *   - nothing here opens the file but SQLite, so nothing here closes it either;
 *   - the guard: locks of the open file description (OFD), set on SQLite's own descriptors. They
 *     survive other closes, and conflict with the exclusive lock that deleting the log needs and with
 *     the "nobody is alive" test that resetting the log's index needs;
 *   - the identity of file and log is compared after each commit, for deletions that ask no lock.
 */
#include "engine/sqlite/file.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/str.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <sys/vfs.h>
#include <unistd.h>

/* SQLite's lock bytes, part of its file format (os.h "Standard file-locking", walformat.html). */
enum {
    LOCK_SHARED_FIRST = 0x40000000 + 2,
    LOCK_SHARED_SIZE = 510,
    LOCK_SHM_WRITE = 120,
    LOCK_SHM_ALIVE = 128
};

static const char where_open[] = "open";

int sq_open(const char *path, int flags)
{
    int fd = open(path, flags | O_CLOEXEC, 0600);

    if (fd < 0 || fd > STDERR_FILENO)
        return fd;
    int high = fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    int e = errno;
    (void)close(fd);
    errno = e;
    return high;
}

bool sq_ofd_lock(int fd, short type, off_t at)
{
    struct flock l = {.l_type = type, .l_whence = SEEK_SET, .l_start = at, .l_len = 1};

    return fcntl(fd, F_OFD_SETLK, &l) == 0;
}

bool sq_short_of(int e)
{
    return e == EMFILE || e == ENFILE || e == ENOMEM;
}

/* ---- path ---------------------------------------------------------------------------------- */

emq_status sq_fail_path(int e, const char *what, const char *path, emq_error *err)
{
    switch (e) {
    case EACCES:
    case EPERM:
        return emq__fail(err, EMQ_E_REFUSED, e, where_open,
                         "no permission to %s '%s': check owner and mode of it and of its folder",
                         what, path);
    case EROFS:
        return emq__fail(err, EMQ_E_REFUSED, e, where_open,
                         "can't %s '%s': the file system is read-only", what, path);
    case ENOSPC:
    case EDQUOT:
        return emq__fail(err, EMQ_E_FULL, e, where_open,
                         "can't %s '%s': no space left; free some and try again", what, path);
    case EMFILE:
    case ENFILE:
        return emq__fail(err, EMQ_E_SYSTEM, e, where_open,
                         "can't %s '%s': too many open files: raise the limit (`ulimit -n`)", what,
                         path);
    case ENOMEM: return emq__fail(err, EMQ_E_NOMEM, e, where_open, "can't %s '%s'", what, path);
    default:
        return emq__fail(err, EMQ_E_STORE, e, where_open, "can't %s '%s': %s", what, path,
                         strerrordesc_np(e) ? strerrordesc_np(e) : "unknown error");
    }
}

static char *join(const char *a, const char *sep, const char *b)
{
    size_t n = strlen(a) + strlen(sep) + strlen(b) + 1;
    char *out = malloc(n);

    if (out)
        (void)snprintf(out, n, "%s%s%s", a, sep, b);
    return out;
}

/* The absolute path of a file that does not exist yet. */
static emq_status resolve_new(const char *path, char **out, emq_error *err)
{
    struct stat st;
    const char *slash = strrchr(path, '/');
    const char *base = slash ? slash + 1 : path;
    char *dir = slash == path ? strdup("/")
                : slash       ? strndup(path, (size_t)(slash - path))
                              : strdup(".");
    char *real = NULL;
    emq_status s = EMQ_OK;

    if (!dir)
        return emq__fail(err, EMQ_E_NOMEM, 0, where_open, "path of %zu bytes", strlen(path));
    real = realpath(dir, NULL);
    if (!real) {
        int e = errno;
        if (e == ENOENT || e == ENOTDIR)
            s = emq__fail(err, EMQ_E_STORE, e, where_open,
                          "there is no folder '%s' for the file '%s': create it first", dir, base);
        else
            s = sq_fail_path(e, "reach the folder", dir, err);
    } else if (lstat(path, &st) == 0 && S_ISLNK(st.st_mode)) {
        s = emq__fail(err, EMQ_E_STORE, ENOENT, where_open,
                      "'%s' is a symbolic link to a file that does not exist", path);
    } else {
        *out = join(strcmp(real, "/") == 0 ? "" : real, "/", base);
        if (!*out)
            s = emq__fail(err, EMQ_E_NOMEM, 0, where_open, "path of %zu bytes", strlen(path));
    }
    free(real);
    free(dir);
    return s;
}

static emq_status none_there(const char *path, emq_error *err)
{
    return emq__fail(err, EMQ_E_STORE, ENODATA, where_open,
                     "there is no file '%s': a store is made by what adds to it", path);
}

static emq_status resolve(const char *path, enum emq__making making, char **out, emq_error *err)
{
    struct stat st;
    char *real = realpath(path, NULL);

    if (!real) {
        if (errno == ENOENT && making == EMQ__MAKE_NONE)
            return none_there(path, err);
        size_t n = strlen(path);
        if (errno == ENOENT && n > 0 && path[n - 1] != '/')
            return resolve_new(path, out, err);
        if (errno == ENOENT)
            return emq__fail(err, EMQ_E_STORE, ENOENT, where_open,
                             "'%s' names a folder that does not exist, not a file", path);
        return sq_fail_path(errno, "reach", path, err);
    }
    if (stat(real, &st) == 0 && !S_ISREG(st.st_mode)) {
        free(real);
        return emq__fail(err, EMQ_E_INVALID, S_ISDIR(st.st_mode) ? EISDIR : 0, where_open,
                         "'%s' is a %s: give the path of a file", path,
                         S_ISDIR(st.st_mode) ? "folder" : "device, socket or pipe");
    }
    *out = real;
    return EMQ_OK;
}

/* Makes an empty file of mode 0600. It gets its name only after its descriptor was closed, so that
 * this close can't drop the locks of a connection that another thread opened meanwhile. */
static emq_status create(const char *path, emq_error *err)
{
    struct stat st;
    char suffix[EMQ__RANDOM_ID_LEN + 1];
    char *temp;
    emq_status s = EMQ_OK;

    if (stat(path, &st) == 0)
        return EMQ_OK;
    emq__random_id(suffix);
    temp = join(path, "-new-", suffix);
    if (!temp)
        return emq__fail(err, EMQ_E_NOMEM, 0, where_open, "path of %zu bytes", strlen(path));
    int fd = sq_open(temp, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW);
    if (fd < 0) {
        s = sq_fail_path(errno, "create", path, err);
        goto done;
    }
    int rc = fchmod(fd, 0600) == 0 ? 0 : errno; /* the umask may have taken bits away */
    (void)close(fd);
    if (rc == 0 && renameat2(AT_FDCWD, temp, AT_FDCWD, path, RENAME_NOREPLACE) != 0) {
        rc = errno;
        if (rc == EINVAL || rc == ENOSYS) /* a file system that can't: hard links then */
            rc = link(temp, path) == 0 || errno == EEXIST ? EEXIST : errno;
        (void)unlink(temp);
    } else if (rc != 0) {
        (void)unlink(temp);
    }
    if (rc != 0 && rc != EEXIST)
        s = sq_fail_path(rc, "create", path, err);
done:
    free(temp);
    return s;
}

/* SQLite's log needs shared memory and working locks: network file systems have neither. */
static emq_status check_file_system(const char *path, const struct emq__log *log, emq_error *err)
{
    struct statfs fs;

    if (statfs(path, &fs) != 0)
        return EMQ_OK;
    switch ((unsigned long)fs.f_type & 0xffffffffUL) {
    case NFS_SUPER_MAGIC:
    case SMB_SUPER_MAGIC:
    case CIFS_SUPER_MAGIC:
    case SMB2_SUPER_MAGIC:
    case AFS_SUPER_MAGIC:
    case AFS_FS_MAGIC:
    case CODA_SUPER_MAGIC:
    case NCP_SUPER_MAGIC:
    case CEPH_SUPER_MAGIC:
        return emq__fail(err, EMQ_E_REFUSED, 0, where_open,
                         "'%s' is on a network file system, whose locks and shared memory can't "
                         "protect a queue: use a local disk, or a Redis store for many machines",
                         path);
    case V9FS_MAGIC:
    case FUSE_SUPER_MAGIC:
        emq__log_write(log, EMQ_LOG_WARN,
                       "'%s' is on a file system of a kind whose locks may not work: "
                       "a local disk is safe",
                       path);
        return EMQ_OK;
    default: return EMQ_OK;
    }
}

emq_status sq_file_init(struct sq_file *f, emq_str path, enum emq__making making,
                        const struct emq__log *log, emq_error *err)
{
    *f = (struct sq_file){.shm_fd = -1, .making = making};
    if (emq__str_is(path, ":memory:"))
        return EMQ_OK;
    if (path.len == 0 || path.len >= PATH_MAX || memchr(path.ptr, '\0', path.len))
        return emq__fail(err, EMQ_E_INVALID, 0, where_open,
                         "a path of %zu bytes: give 1 to %d bytes without NUL", path.len,
                         PATH_MAX - 1);

    char *given = emq__str_dup(path);
    emq_status s = given
                       ? resolve(given, making, &f->path, err)
                       : emq__fail(err, EMQ_E_NOMEM, 0, where_open, "path of %zu bytes", path.len);
    free(given);
    if (s == EMQ_OK)
        s = sq_file_create(f, err);
    if (s == EMQ_OK)
        s = check_file_system(f->path, log, err);
    if (s == EMQ_OK && access(f->path, R_OK | W_OK) != 0)
        s = sq_fail_path(errno, "read and write", f->path, err);
    if (s == EMQ_OK) {
        f->wal = join(f->path, "-wal", "");
        f->shm = join(f->path, "-shm", "");
        f->side = join(f->path, "-emq", "");
        if (!f->wal || !f->shm || !f->side)
            s = emq__fail(err, EMQ_E_NOMEM, 0, where_open, "path of %zu bytes", path.len);
    }
    if (s != EMQ_OK)
        sq_file_free(f);
    return s;
}

emq_status sq_file_create(const struct sq_file *f, emq_error *err)
{
    struct stat st;

    if (!f->path)
        return EMQ_OK;
    if (f->making != EMQ__MAKE_NONE)
        return create(f->path, err);
    return stat(f->path, &st) == 0 || errno != ENOENT ? EMQ_OK : none_there(f->path, err);
}

void sq_file_free(struct sq_file *f)
{
    free(f->path);
    free(f->wal);
    free(f->shm);
    free(f->side);
    *f = (struct sq_file){.shm_fd = -1};
}

emq_status sq_file_open_db(const struct sq_file *f, sqlite3 **db, emq_error *err)
{
    int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_PRIVATECACHE |
                SQLITE_OPEN_EXRESCODE;
    /* The path is absolute, so it is never taken for a URI. Without CREATE: a file that vanished is
     * an error here, not a new, empty queue. */
    int rc = f->path ? sqlite3_open_v2(f->path, db, flags, NULL)
                     : sqlite3_open_v2(":memory:", db, flags | SQLITE_OPEN_CREATE, NULL);

    if (rc == SQLITE_OK)
        return EMQ_OK;
    int e = *db ? sqlite3_system_errno(*db) : 0;
    (void)sqlite3_close_v2(*db);
    *db = NULL;
    if (rc == SQLITE_NOMEM)
        return emq__fail(err, EMQ_E_NOMEM, rc, where_open, "opening '%s'",
                         f->path ? f->path : ":memory:");
    return sq_fail_path(e ? e : EIO, "open", f->path ? f->path : ":memory:", err);
}

/* ---- identity and guard -------------------------------------------------------------------- */

static bool id_of_path(const char *path, struct sq_file_id *id)
{
    struct stat st;

    if (stat(path, &st) != 0)
        return false;
    *id = (struct sq_file_id){st.st_dev, st.st_ino};
    return true;
}

/* name: of an entry in /proc/self/fd. */
static bool fd_is(DIR *fds, const char *name, const struct sq_file_id *id)
{
    struct stat st;

    return fstatat(dirfd(fds), name, &st, 0) == 0 && st.st_dev == id->dev && st.st_ino == id->ino;
}

static DIR *own_fds(void)
{
    int fd = sq_open("/proc/self/fd", O_RDONLY | O_DIRECTORY);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);

    if (fd >= 0 && !dir) {
        int e = errno;
        (void)close(fd);
        errno = e;
    }
    return dir;
}

/* Sets (F_RDLCK) or drops (F_UNLCK) a lock of the open file description on every descriptor that
 * this process has of the file; SQLite's are among them and live as long as its connections. How many
 * there are; -1 with errno: they can't be listed. */
static int lock_all(const struct sq_file_id *id, short type, off_t at, int *one)
{
    DIR *dir = own_fds();
    struct dirent *e;
    int n = 0;

    if (!dir)
        return -1;
    while ((e = readdir(dir)) != NULL) {
        int64_t v;
        if (!emq__str_to_i64(emq_cstr(e->d_name), &v) || v < 0 || v > INT_MAX || v == dirfd(dir))
            continue;
        int fd = (int)v;
        if (!fd_is(dir, e->d_name, id) || !sq_ofd_lock(fd, type, at))
            continue;
        if (!fd_is(dir, e->d_name, id)) { /* closed and used again in between */
            (void)sq_ofd_lock(fd, F_UNLCK, at);
            continue;
        }
        if (one)
            *one = fd;
        n++;
    }
    (void)closedir(dir);
    return n;
}

emq_status sq_file_remember(struct sq_file *f, emq_error *err)
{
    if (!f->path)
        return EMQ_OK;
    if (!id_of_path(f->path, &f->db_id) || !id_of_path(f->wal, &f->wal_id) ||
        !id_of_path(f->shm, &f->shm_id))
        return emq__fail(err, EMQ_E_STORE, errno, where_open,
                         "'%s' or its log vanished while it was being opened", f->path);
    return EMQ_OK;
}

emq_status sq_file_guard(struct sq_file *f, emq_error *err)
{
    int shm_fd = -1;

    if (!f->path)
        return EMQ_OK;
    if (f->guard_at == 0) {
        /* A byte of our own, so that another handle of this process can't drop ours with its own. */
        uint16_t r;
        emq__random(&r, sizeof r);
        f->guard_at = LOCK_SHARED_FIRST + r % LOCK_SHARED_SIZE;
    }
    int db = lock_all(&f->db_id, F_RDLCK, f->guard_at, NULL);
    int shm = db < 0 ? -1 : lock_all(&f->shm_id, F_RDLCK, LOCK_SHM_ALIVE, &shm_fd);
    if ((db < 0 || shm < 0) && sq_short_of(errno))
        return sq_fail_path(errno, "guard", f->path, err);
    f->shm_fd = shm_fd;
    f->guarded = db > 0 && shm > 0;
    return EMQ_OK;
}

void sq_file_unguard(struct sq_file *f)
{
    if (f->path && f->guard_at != 0)
        (void)lock_all(&f->db_id, F_UNLCK, f->guard_at, NULL);
    f->guarded = false;
    f->shm_fd = -1;
}

static bool names(const char *path, const struct sq_file_id *id)
{
    struct sq_file_id now;

    return id_of_path(path, &now) && now.dev == id->dev && now.ino == id->ino;
}

bool sq_file_db_same(const struct sq_file *f)
{
    return f->path && names(f->path, &f->db_id);
}

bool sq_file_same(const struct sq_file *f)
{
    return !f->path || (names(f->path, &f->db_id) && names(f->wal, &f->wal_id));
}

bool sq_file_write_locked(const struct sq_file *f)
{
    struct flock l = {
        .l_type = F_RDLCK, .l_whence = SEEK_SET, .l_start = LOCK_SHM_WRITE, .l_len = 1};

    if (f->shm_fd < 0 || fcntl(f->shm_fd, F_OFD_GETLK, &l) != 0)
        return true;
    return l.l_type == F_WRLCK && l.l_pid == getpid();
}

int64_t sq_file_wal_bytes(const struct sq_file *f)
{
    struct stat st;

    return f->wal && stat(f->wal, &st) == 0 ? (int64_t)st.st_size : 0;
}
