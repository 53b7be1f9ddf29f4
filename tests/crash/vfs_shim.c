/* SPDX-License-Identifier: MIT
 *
 * See vfs_shim.h. Works by file name; shared memory, locks and reading go to the real file.
 */
#include "vfs_shim.h"

#include "lib/test.h"

#include <fcntl.h>
#include <pthread.h>
#include <sqlite3.h>
#include <unistd.h>

struct change {
    struct change *next;
    int64_t at, len; /* len -1: truncated to `at` */
    unsigned char bytes[];
};

/* One file by name: what is on the disk, and what was done since the last sync, oldest first. */
struct image {
    struct image *next;
    char *name;
    unsigned char *disk;
    int64_t len, cap;
    struct change *first, **last;
};

struct shim_file {
    sqlite3_file base;
    struct image *image; /* NULL: a kind of file that does not matter here */
    sqlite3_file *real;
};

static pthread_mutex_t mu = PTHREAD_MUTEX_INITIALIZER; /* guards all below */
static struct image *images;
static struct {
    enum shim_op op;
    char tail[32];
    int left, times, rc;
    bool hit;
} fault;
static sqlite3_vfs shim;
static sqlite3_vfs *under;

/* ---- images ----------------------------------------------------------------------------------- */

static void disk_grow(struct image *m, int64_t len)
{
    if (len > m->cap) {
        m->cap = len * 2;
        m->disk = realloc(m->disk, (size_t)m->cap);
        if (!m->disk)
            abort();
    }
    if (len > m->len) {
        memset(m->disk + m->len, 0, (size_t)(len - m->len));
        m->len = len;
    }
}

static void forget_changes(struct image *m)
{
    while (m->first) {
        struct change *c = m->first;
        m->first = c->next;
        free(c);
    }
    m->last = &m->first;
}

static struct image *image_of(const char *name, bool create)
{
    struct image *m = images;

    while (m && strcmp(m->name, name) != 0)
        m = m->next;
    if (m || !create)
        return m;
    m = calloc(1, sizeof *m);
    if (!m || !(m->name = strdup(name)))
        abort();
    m->last = &m->first;
    m->next = images;
    images = m;
    /* What is there already counts as synced. */
    int fd = open(name, O_RDONLY | O_CLOEXEC);
    if (fd >= 0) {
        unsigned char buf[65536];
        ssize_t n;
        for (int64_t at = 0; (n = read(fd, buf, sizeof buf)) > 0; at += n) {
            disk_grow(m, at + n);
            memcpy(m->disk + at, buf, (size_t)n);
        }
        (void)close(fd);
    }
    return m;
}

static void image_drop(const char *name)
{
    for (struct image **p = &images; *p; p = &(*p)->next)
        if (strcmp((*p)->name, name) == 0) {
            struct image *m = *p;
            forget_changes(m);
            m->len = 0; /* open files keep the pointer */
            return;
        }
}

static void add_change(struct image *m, const void *bytes, int64_t len, int64_t at)
{
    struct change *c = malloc(sizeof *c + (size_t)(len > 0 ? len : 0));

    if (!c)
        abort();
    c->next = NULL;
    c->at = at;
    c->len = len;
    if (len > 0)
        memcpy(c->bytes, bytes, (size_t)len);
    *m->last = c;
    m->last = &c->next;
}

static void apply(struct image *m, const struct change *c, enum shim_cut cut, uint64_t *seed)
{
    enum { SECTOR = 512 };

    if (c->len < 0) {
        if (cut == SHIM_LOSE_ALL || test_random(seed) % 2)
            m->len = c->at < m->len ? c->at : m->len;
        return;
    }
    for (int64_t i = 0; i < c->len; i += SECTOR) {
        int64_t n = c->len - i < SECTOR ? c->len - i : SECTOR;
        if (cut == SHIM_KEEP_SOME && test_random(seed) % 2)
            continue;
        disk_grow(m, c->at + i + n);
        memcpy(m->disk + c->at + i, c->bytes + i, (size_t)n);
    }
}

/* ---- failures ----------------------------------------------------------------------------------- */

static bool ends_with(const char *s, const char *tail)
{
    size_t n = strlen(s), t = strlen(tail);

    return n >= t && strcmp(s + n - t, tail) == 0;
}

/* The result that this call must have; mu is held. */
static int fails(enum shim_op op, const struct image *m)
{
    if (!m || fault.left == 0 || fault.op != op || !ends_with(m->name, fault.tail))
        return SQLITE_OK;
    if (fault.left > 1) {
        fault.left--;
        return SQLITE_OK;
    }
    if (--fault.times <= 0)
        fault.left = 0;
    fault.hit = true;
    return fault.rc;
}

void shim_fail(enum shim_op op, const char *tail, int nth, int rc, int times)
{
    pthread_mutex_lock(&mu);
    fault.op = op;
    fault.left = nth;
    fault.rc = rc;
    fault.times = times;
    fault.hit = false;
    (void)snprintf(fault.tail, sizeof fault.tail, "%s", tail);
    pthread_mutex_unlock(&mu);
}

bool shim_failed(void)
{
    pthread_mutex_lock(&mu);
    bool hit = fault.hit;
    pthread_mutex_unlock(&mu);
    return hit;
}

/* ---- the file ------------------------------------------------------------------------------------ */

static struct shim_file *of(sqlite3_file *f)
{
    return (struct shim_file *)f;
}

static int shim_close(sqlite3_file *f)
{
    return of(f)->real->pMethods->xClose(of(f)->real);
}

static int shim_read(sqlite3_file *f, void *p, int n, sqlite3_int64 at)
{
    return of(f)->real->pMethods->xRead(of(f)->real, p, n, at);
}

static int shim_write(sqlite3_file *f, const void *p, int n, sqlite3_int64 at)
{
    struct shim_file *s = of(f);

    pthread_mutex_lock(&mu);
    int rc = fails(SHIM_WRITE, s->image);
    if (rc == SQLITE_OK)
        rc = s->real->pMethods->xWrite(s->real, p, n, at);
    if (rc == SQLITE_OK && s->image)
        add_change(s->image, p, n, at);
    pthread_mutex_unlock(&mu);
    return rc;
}

static int shim_truncate(sqlite3_file *f, sqlite3_int64 size)
{
    struct shim_file *s = of(f);

    pthread_mutex_lock(&mu);
    int rc = fails(SHIM_TRUNCATE, s->image);
    if (rc == SQLITE_OK)
        rc = s->real->pMethods->xTruncate(s->real, size);
    if (rc == SQLITE_OK && s->image)
        add_change(s->image, NULL, -1, size);
    pthread_mutex_unlock(&mu);
    return rc;
}

/* No real fsync: the image is the disk, and the tests are fast. A failed sync has synced nothing. */
static int shim_sync(sqlite3_file *f, int flags)
{
    struct shim_file *s = of(f);

    (void)flags;
    pthread_mutex_lock(&mu);
    int rc = fails(SHIM_SYNC, s->image);
    if (rc == SQLITE_OK && s->image) {
        for (struct change *c = s->image->first; c; c = c->next)
            apply(s->image, c, SHIM_LOSE_ALL, NULL);
        forget_changes(s->image);
    } else if (rc != SQLITE_OK && s->image) {
        /* As Linux does: the pages count as clean now, and the next sync does not write them. */
        forget_changes(s->image);
    }
    pthread_mutex_unlock(&mu);
    return rc;
}

static int shim_size(sqlite3_file *f, sqlite3_int64 *size)
{
    return of(f)->real->pMethods->xFileSize(of(f)->real, size);
}

static int shim_lock(sqlite3_file *f, int level)
{
    return of(f)->real->pMethods->xLock(of(f)->real, level);
}

static int shim_unlock(sqlite3_file *f, int level)
{
    return of(f)->real->pMethods->xUnlock(of(f)->real, level);
}

static int shim_reserved(sqlite3_file *f, int *out)
{
    return of(f)->real->pMethods->xCheckReservedLock(of(f)->real, out);
}

static int shim_control(sqlite3_file *f, int op, void *arg)
{
    return of(f)->real->pMethods->xFileControl(of(f)->real, op, arg);
}

static int shim_sector(sqlite3_file *f)
{
    return of(f)->real->pMethods->xSectorSize(of(f)->real);
}

static int shim_traits(sqlite3_file *f)
{
    return of(f)->real->pMethods->xDeviceCharacteristics(of(f)->real);
}

static int shim_shm_map(sqlite3_file *f, int page, int size, int extend, void volatile **out)
{
    return of(f)->real->pMethods->xShmMap(of(f)->real, page, size, extend, out);
}

static int shim_shm_lock(sqlite3_file *f, int at, int n, int flags)
{
    return of(f)->real->pMethods->xShmLock(of(f)->real, at, n, flags);
}

static void shim_shm_barrier(sqlite3_file *f)
{
    of(f)->real->pMethods->xShmBarrier(of(f)->real);
}

static int shim_shm_unmap(sqlite3_file *f, int delete)
{
    return of(f)->real->pMethods->xShmUnmap(of(f)->real, delete);
}

static const sqlite3_io_methods methods = {
    .iVersion = 2,
    .xClose = shim_close,
    .xRead = shim_read,
    .xWrite = shim_write,
    .xTruncate = shim_truncate,
    .xSync = shim_sync,
    .xFileSize = shim_size,
    .xLock = shim_lock,
    .xUnlock = shim_unlock,
    .xCheckReservedLock = shim_reserved,
    .xFileControl = shim_control,
    .xSectorSize = shim_sector,
    .xDeviceCharacteristics = shim_traits,
    .xShmMap = shim_shm_map,
    .xShmLock = shim_shm_lock,
    .xShmBarrier = shim_shm_barrier,
    .xShmUnmap = shim_shm_unmap,
};

/* ---- the VFS --------------------------------------------------------------------------------------- */

static int shim_open(sqlite3_vfs *v, const char *name, sqlite3_file *f, int flags, int *out)
{
    struct shim_file *s = of(f);

    (void)v;
    *s = (struct shim_file){.real = (sqlite3_file *)(s + 1)};
    if (name && (flags & (SQLITE_OPEN_MAIN_DB | SQLITE_OPEN_WAL))) {
        pthread_mutex_lock(&mu);
        s->image = image_of(name, true);
        pthread_mutex_unlock(&mu);
    }
    int rc = under->xOpen(under, name, s->real, flags, out);
    if (rc == SQLITE_OK)
        s->base.pMethods = &methods;
    return rc;
}

static int shim_delete(sqlite3_vfs *v, const char *name, int sync)
{
    (void)v;
    (void)sync; /* as with files: nothing here waits for the real disk */
    pthread_mutex_lock(&mu);
    image_drop(name);
    pthread_mutex_unlock(&mu);
    return under->xDelete(under, name, 0);
}

void shim_install(void)
{
    pthread_mutex_lock(&mu);
    while (images) {
        struct image *m = images;
        images = m->next;
        forget_changes(m);
        free(m->disk);
        free(m->name);
        free(m);
    }
    memset(&fault, 0, sizeof fault);
    pthread_mutex_unlock(&mu);
    if (under)
        return;
    under = sqlite3_vfs_find(NULL);
    CHECK(under != NULL);
    shim = *under;
    shim.pNext = NULL;
    shim.zName = "power";
    shim.szOsFile = (int)sizeof(struct shim_file) + under->szOsFile;
    shim.xOpen = shim_open;
    shim.xDelete = shim_delete;
    CHECK_INT(sqlite3_vfs_register(&shim, 1), SQLITE_OK);
}

static void write_image(const struct image *m, const char *to)
{
    int fd = open(to, O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0600);

    CHECK(fd >= 0);
    for (int64_t at = 0; at < m->len;) {
        ssize_t n = write(fd, m->disk + at, (size_t)(m->len - at));
        CHECK(n > 0);
        at += n;
    }
    CHECK_INT(close(fd), 0);
}

void shim_power_cut(const char *path, const char *to, enum shim_cut cut, uint64_t *seed)
{
    static const char *const tails[] = {"", "-wal"};
    struct image copy[EMQ_ARRAY_LEN(tails)] = {0};
    char name[4096];

    pthread_mutex_lock(&mu); /* one moment for both files */
    for (size_t i = 0; i < EMQ_ARRAY_LEN(tails); i++) {
        (void)snprintf(name, sizeof name, "%s%s", path, tails[i]);
        const struct image *m = image_of(name, false);
        if (!m)
            continue;
        disk_grow(&copy[i], m->len);
        if (m->len > 0)
            memcpy(copy[i].disk, m->disk, (size_t)m->len);
        for (struct change *c = m->first; c && cut == SHIM_KEEP_SOME; c = c->next)
            apply(&copy[i], c, cut, seed);
    }
    pthread_mutex_unlock(&mu);
    for (size_t i = 0; i < EMQ_ARRAY_LEN(tails); i++) {
        (void)snprintf(name, sizeof name, "%s%s", to, tails[i]);
        (void)unlink(name);
        if (copy[i].len > 0)
            write_image(&copy[i], name);
        free(copy[i].disk);
    }
}
