/* SPDX-License-Identifier: MIT
 *
 * The act `facts`: what this store is and how it is kept.
 */
#include "engine/sqlite/ground.h"

#include "base/error.h"

#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>

enum { FACTS_MAX = 24 };

struct facts {
    struct emq__facts_res *res;
    struct emq__arena *mem;
    bool failed;
};

static void put(struct facts *f, const char *name, emq_str value)
{
    if (!value.ptr || f->res->n == FACTS_MAX)
        f->failed = true;
    else
        f->res->facts[f->res->n++] = (struct emq__fact){emq_cstr(name), value};
}

static void put_i64(struct facts *f, const char *name, int64_t value)
{
    put(f, name, emq__arena_printf(f->mem, "%lld", (long long)value));
}

static void put_pragma(struct facts *f, struct sq_conn *c, const char *name)
{
    char sql[64];
    sqlite3_stmt *st = NULL;

    (void)snprintf(sql, sizeof sql, "PRAGMA %s", name);
    if (sqlite3_prepare_v2(c->db, sql, -1, &st, NULL) == SQLITE_OK &&
        sqlite3_step(st) == SQLITE_ROW)
        put(f, name, sq_col_copy(st, 0, f->mem));
    sqlite3_finalize(st);
}

/* Of those that people keep queues on; the numbers are of statfs(2). */
static const char *filesystem(const char *path, bool *network)
{
    static const struct {
        long type;
        const char *name;
        bool network;
    } known[] = {
        {0xEF53, "ext", false},       {0x58465342, "xfs", false}, {0x9123683E, "btrfs", false},
        {0x01021994, "tmpfs", false}, {0x2FC12FC1, "zfs", false}, {0x794C7630, "overlay", false},
        {0xF2F52010, "f2fs", false},  {0x4D44, "fat", false},     {0x6969, "nfs", true},
        {0xFF534D42, "cifs", true},   {0xFE534D42, "smb2", true}, {0x65735546, "fuse", true},
        {0x01021997, "9p", true},     {0x00C36400, "ceph", true}};
    struct statfs fs;

    *network = false;
    if (statfs(path, &fs) != 0)
        return "unknown";
    for (size_t i = 0; i < EMQ_ARRAY_LEN(known); i++)
        if ((unsigned long)fs.f_type == (unsigned long)known[i].type) {
            *network = known[i].network;
            return known[i].name;
        }
    return "other";
}

static void of_file(struct facts *f, const struct sq *s)
{
    char wal[4096];
    struct stat st;
    struct statvfs vfs;
    bool network;

    put(f, "path", emq__arena_str(f->mem, emq_cstr(s->file.path)));
    put(f, "filesystem", emq_cstr(filesystem(s->file.path, &network)));
    put(f, "network", emq_cstr(network ? "yes" : "no"));
    if (stat(s->file.path, &st) == 0)
        put_i64(f, "file_bytes", st.st_size);
    if (snprintf(wal, sizeof wal, "%s-wal", s->file.path) < (int)sizeof wal && stat(wal, &st) == 0)
        put_i64(f, "log_bytes", st.st_size);
    if (statvfs(s->file.path, &vfs) == 0)
        put_i64(f, "free_bytes", (int64_t)vfs.f_bavail * (int64_t)vfs.f_frsize);
    put(f, "turns", emq_cstr(s->group.turn ? "yes" : "no"));
}

static emq_status facts_fn(struct sq_tx *tx, void *arg, emq_error *err)
{
    static const char *const syncs[] = {"off", "normal", "full"};
    struct facts *f = arg;
    const struct sq *s = tx->s;
    struct rlimit limit;

    *f->res = (struct emq__facts_res){.now_ms = tx->now_ms};
    f->res->facts = emq__arena_zalloc(f->mem, FACTS_MAX, sizeof *f->res->facts);
    if (!f->res->facts)
        return emq__fail(err, EMQ_E_NOMEM, 0, "facts", "%d facts", FACTS_MAX);
    put(f, "engine", EMQ_STR_LIT("sqlite"));
    put(f, "sqlite_version", emq_cstr(sqlite3_libversion()));
    put(f, "memory", emq_cstr(sq_in_memory(s) ? "yes" : "no"));
    put(f, "sync", emq_cstr(syncs[s->sync]));
    put_pragma(f, tx->conn, "journal_mode");
    put_pragma(f, tx->conn, "page_size");
    if (!sq_in_memory(s))
        of_file(f, s);
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0)
        put_i64(f, "descriptors",
                (int64_t)(limit.rlim_cur > INT32_MAX ? INT32_MAX : limit.rlim_cur));
    if (f->failed)
        return emq__fail(err, EMQ_E_NOMEM, 0, "facts", "no memory");
    return EMQ_OK;
}

emq_status sq_act_facts(struct emq__engine *e, const struct emq__facts_req *req,
                        struct emq__facts_res *res, struct emq__arena *mem, emq_error *err)
{
    struct facts f = {.res = res, .mem = mem};

    (void)req;
    return sq_read((struct sq *)e, facts_fn, &f, err);
}
