/* SPDX-License-Identifier: MIT
 *
 * What a store can lose.
 */
#include "lab/doctor.h"

#include "base/error.h"
#include "base/str.h"
#include "model/duration.h"

#include <stdarg.h>

enum { FREE_MIN = 64 * 1024 * 1024, LOG_MAX = 256 * 1024 * 1024, DESCRIPTORS_MIN = 256 };
enum { CLOCK_MS = 500 };

const char *emq__loss_name(enum emq__loss loss)
{
    static const char *const names[] = {"process", "machine", "server", "link"};

    return names[loss];
}

emq_str emq__fact_of(const struct emq__doctor *d, const char *name)
{
    for (size_t i = 0; i < d->n_facts; i++)
        if (emq__str_is(d->facts[i].name, name))
            return d->facts[i].value;
    return EMQ_STR_LIT("");
}

static bool fact_is(const struct emq__doctor *d, const char *name, const char *value)
{
    return emq__str_is(emq__fact_of(d, name), value);
}

static int64_t number(const struct emq__doctor *d, const char *name, int64_t unknown)
{
    int64_t n;

    return emq__str_to_i64(emq__fact_of(d, name), &n) ? n : unknown;
}

void emq__advise(struct emq__doctor *d, struct emq__arena *mem, const char *fmt, ...)
{
    char text[400];
    va_list ap;

    va_start(ap, fmt);
    (void)vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    emq_str line = emq__arena_str(mem, emq_cstr(text));
    if (line.ptr && d->n_advice < EMQ__ADVICE_MAX)
        d->advice[d->n_advice++] = line;
}

static const char jobs_come_back[] =
    "nothing that was acknowledged; the jobs it held come back when their locks end (30s unless a "
    "worker asked "
    "otherwise) and may run twice, those held at-most-once fail instead";

/* ---- SQLite -------------------------------------------------------------------------------------- */

static const char *loss_of_machine(const struct emq__doctor *d)
{
    if (fact_is(d, "filesystem", "tmpfs"))
        return "everything: the file is in memory (tmpfs)";
    if (fact_is(d, "sync", "full"))
        return "nothing that was acknowledged, if the disk keeps what it said it had written";
    if (fact_is(d, "sync", "normal"))
        return "what was acknowledged in the last moments: adds vanish, finished jobs run again; "
               "the file "
               "stays sound";
    return "what was acknowledged in the last moments, and the file may be damaged";
}

static void sqlite_losses(struct emq__doctor *d)
{
    bool memory = fact_is(d, "memory", "yes");

    d->losses[EMQ__LOSS_PROCESS] =
        memory ? "everything: the store is in this process's memory" : jobs_come_back;
    d->losses[EMQ__LOSS_MACHINE] =
        memory ? "everything: the store is in this process's memory" : loss_of_machine(d);
    d->losses[EMQ__LOSS_SERVER] = "there is none";
    d->losses[EMQ__LOSS_LINK] =
        fact_is(d, "network", "yes")
            ? "writes to the file system fail or hang, and locks on the file may be lost"
            : "there is none";
}

static void sqlite_advice(struct emq__doctor *d, struct emq__arena *mem)
{
    emq_str fs = emq__fact_of(d, "filesystem");

    if (fact_is(d, "memory", "yes"))
        return;
    if (!fact_is(d, "sync", "full"))
        emq__advise(d, mem,
                    "sync=%.*s: an acknowledgement does not outlive a power cut; leave ?sync= out "
                    "of the URL for full",
                    EMQ_STR_ARG(emq__fact_of(d, "sync")));
    if (!fact_is(d, "journal_mode", "wal"))
        emq__advise(d, mem, "journal_mode is %.*s, it should be wal: somebody has changed it",
                    EMQ_STR_ARG(emq__fact_of(d, "journal_mode")));
    if (fact_is(d, "network", "yes"))
        emq__advise(
            d, mem,
            "the file is on %.*s: SQLite's log works on one machine only; move it to a local disk, "
            "or use a server",
            EMQ_STR_ARG(fs));
    if (emq__str_is(fs, "tmpfs"))
        emq__advise(d, mem, "the file is on a tmpfs: a restart of the machine empties it");
    if (fact_is(d, "turns", "no"))
        emq__advise(
            d, mem,
            "there is no side file: processes take no turns and waiting is slower; is its folder "
            "writable?");
    if (number(d, "free_bytes", FREE_MIN) < FREE_MIN)
        emq__advise(d, mem, "only %lld MB are free beside the file: make room",
                    (long long)(number(d, "free_bytes", 0) >> 20));
    if (number(d, "log_bytes", 0) > LOG_MAX)
        emq__advise(d, mem,
                    "the log has grown to %lld MB: some process keeps a transaction open, so that "
                    "it can't be "
                    "written back",
                    (long long)(number(d, "log_bytes", 0) >> 20));
    if (number(d, "descriptors", DESCRIPTORS_MIN) < DESCRIPTORS_MIN)
        emq__advise(d, mem, "only %lld descriptors a process (ulimit -n): %d are better",
                    (long long)number(d, "descriptors", 0), DESCRIPTORS_MIN);
    emq_str path = emq__arena_str(mem, emq__fact_of(d, "path"));
    if (path.len)
        emq__doctor_foreign(d, path.ptr, mem);
}

/* ---- servers --------------------------------------------------------------------------------------- */

static const char *loss_of_server(const struct emq__doctor *d)
{
    bool aof = fact_is(d, "aof", "1");
    emq_str save = emq__fact_of(d, "save");

    if (aof && fact_is(d, "appendfsync", "always"))
        return "nothing that was acknowledged (append-only file, written out each time)";
    if (aof && fact_is(d, "appendfsync", "no"))
        return "what was acknowledged in about the last 30 s: the system writes the append-only "
               "file when it "
               "likes";
    if (aof && emq__fact_of(d, "appendfsync").len == 0)
        return "what its append-only file had not written out: how often it does is not known";
    if (aof)
        return "what was acknowledged in the last second or two (append-only file, written out "
               "each second): "
               "adds vanish, finished jobs run again";
    if (emq__fact_of(d, "aof").len == 0)
        return "not known: this user may not ask what it keeps on disk";
    if (emq__str_is(save, "none"))
        return "everything: it keeps nothing on disk";
    return "what was acknowledged since its last snapshot: adds vanish, finished jobs run again";
}

static void server_losses(struct emq__doctor *d)
{
    d->losses[EMQ__LOSS_PROCESS] = jobs_come_back;
    d->losses[EMQ__LOSS_MACHINE] =
        "as when its processes die; and if the server runs on it, as when that dies";
    d->losses[EMQ__LOSS_SERVER] = loss_of_server(d);
    d->losses[EMQ__LOSS_LINK] =
        "nothing: a call whose answer is lost is in doubt, and its receipt settles it when the "
        "link is back; who "
        "can't renew a lock for as long as it lasts loses it, and the job may run twice";
}

static void advise_on_memory(struct emq__doctor *d, struct emq__arena *mem)
{
    emq_str policy = emq__fact_of(d, "policy");
    int64_t max = number(d, "maxmemory", 0), used = number(d, "used_memory", 0);

    if (policy.len && !emq__str_is(policy, "noeviction"))
        emq__advise(d, mem,
                    "maxmemory-policy is %.*s: the server may throw jobs away when its memory is "
                    "full; set it to "
                    "noeviction",
                    EMQ_STR_ARG(policy));
    if (number(d, "evicted", 0) > 0)
        emq__advise(
            d, mem,
            "the server has thrown away %lld keys since it started: jobs may be among them; run "
            "`emq fsck`",
            (long long)number(d, "evicted", 0));
    if (max > 0 && used > max / 10 * 8)
        emq__advise(d, mem, "%lld of %lld MB of the server's memory are used",
                    (long long)(used >> 20), (long long)(max >> 20));
}

static void advise_on_disk(struct emq__doctor *d, struct emq__arena *mem)
{
    if (fact_is(d, "aof", "0"))
        emq__advise(d, mem, "appendonly is off: a crash of the server loses %s; set appendonly yes",
                    fact_is(d, "save", "none") ? "everything" : "all since its last snapshot");
    else if (fact_is(d, "aof", "1") && fact_is(d, "appendfsync", "no"))
        emq__advise(d, mem, "appendfsync is no: set it to everysec or always");
    if (emq__fact_of(d, "aof_status").len && fact_is(d, "aof", "1") &&
        !fact_is(d, "aof_status", "ok"))
        emq__advise(d, mem, "the server could not write its append-only file: look at its disk");
    if (emq__fact_of(d, "snapshot_status").len && !fact_is(d, "snapshot_status", "ok"))
        emq__advise(d, mem, "the server's last snapshot failed: look at its disk and its log");
}

static void advise_on_replicas(struct emq__doctor *d, struct emq__arena *mem)
{
    int64_t wait = number(d, "wait", 0), replicas = number(d, "replicas", wait);

    if (replicas < wait)
        emq__advise(d, mem,
                    "wait=%lld in the URL: acknowledgements wait for %lld replica%s, and there %s "
                    "%lld: each call ends in doubt after its timeout; connect replicas, or lower "
                    "wait",
                    (long long)wait, (long long)wait, wait == 1 ? "" : "s",
                    replicas == 1 ? "is only" : "are only", (long long)replicas);
    if (replicas > 0 && wait == 0)
        emq__advise(d, mem,
                    "it has %lld replica%s, and acknowledgements don't wait for %s: a failover "
                    "loses what was "
                    "not copied yet; ?wait=1 in the URL waits for one",
                    (long long)replicas, replicas == 1 ? "" : "s", replicas == 1 ? "it" : "them");
}

static void server_advice(struct emq__doctor *d, struct emq__arena *mem)
{
    int64_t ahead = number(d, "clock_ahead_ms", 0);
    int64_t off = ahead < 0 ? -ahead : ahead, trip = number(d, "round_trip_ms", 0);
    int64_t max = number(d, "maxclients", 0), clients = number(d, "clients", 0);
    char span[40];

    advise_on_memory(d, mem);
    advise_on_disk(d, mem);
    advise_on_replicas(d, mem);
    if (fact_is(d, "info", "refused"))
        emq__advise(d, mem,
                    "this user may not read INFO: the server's version, memory, disk and replicas "
                    "are unknown; give it the right (ACL SETUSER ... +info)");
    if (fact_is(d, "config", "refused"))
        emq__advise(d, mem,
                    "this user may not read CONFIG: appendfsync, save and timeout are unknown; "
                    "give it the right (ACL SETUSER ... +config|get), or look there yourself");
    if (off > CLOCK_MS + trip)
        emq__advise(d, mem,
                    "the server's clock is %s %s this machine's: EchoMQ goes by the server's, "
                    "programs of BullMQ "
                    "go by their own, and their delayed jobs come early or late",
                    emq__duration_format(off, span), ahead > 0 ? "ahead of" : "behind");
    if (max > 0 && clients > max / 10 * 8)
        emq__advise(d, mem, "%lld of %lld connections are in use (maxclients)", (long long)clients,
                    (long long)max);
    if (number(d, "timeout", 0) > 0)
        emq__advise(d, mem,
                    "the server closes idle connections after %lld s (timeout): set it to 0",
                    (long long)number(d, "timeout", 0));
}

emq_status emq__doctor(emq_client *c, struct emq__arena *mem, struct emq__doctor *out,
                       emq_error *err)
{
    struct emq__facts_req req = {.prefix = c->prefix};
    struct emq__facts_res res;
    emq_status s = emq__client_check(c, "doctor", err);

    *out = (struct emq__doctor){0};
    if (s == EMQ_OK)
        s = c->e->ops->facts(c->e, &req, &res, mem, err);
    if (s != EMQ_OK)
        return s;
    out->facts = res.facts;
    out->n_facts = res.n;
    if (fact_is(out, "engine", "sqlite")) {
        sqlite_losses(out);
        sqlite_advice(out, mem);
        return EMQ_OK;
    }
    server_losses(out);
    server_advice(out, mem);
    return emq__doctor_clocks(c, out, mem, err);
}
