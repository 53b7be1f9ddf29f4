/* SPDX-License-Identifier: MIT
 *
 * See ledger.h: which strength has which effect, and those that are files.
 */
#include "lab/ledger.h"

#include "base/error.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

static emq_status failed(const char *what, emq_error *err)
{
    return emq__fail(err, EMQ_E_SYSTEM, errno, "lab", "the ledger: %s: %s", what, strerror(errno));
}

/* ---- files ------------------------------------------------------------------------------- */

static bool write_synced(const char *path, int flags, emq_str text)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC | flags, 0600);
    bool good = fd >= 0 && write(fd, text.ptr, text.len) == (ssize_t)text.len && fsync(fd) == 0;

    if (fd >= 0 && close(fd) != 0)
        good = false;
    return good;
}

static emq_status line_append(const struct lab_ledger *l, emq_error *err)
{
    char path[LAB_PATH_MAX];

    (void)snprintf(path, sizeof path, "%s/effects", l->dir);
    return write_synced(path, O_APPEND, EMQ_STR_LIT("done\n")) ? EMQ_OK : failed(path, err);
}

static emq_status line_count(const struct lab_ledger *l, int64_t *out, emq_error *err)
{
    char path[LAB_PATH_MAX];
    struct stat st;

    (void)snprintf(path, sizeof path, "%s/effects", l->dir);
    if (stat(path, &st) != 0)
        return errno == ENOENT ? (*out = 0, EMQ_OK) : failed(path, err);
    *out = st.st_size / 5;
    return EMQ_OK;
}

/* The same file, whoever comes second. */
static emq_status file_place(const struct lab_ledger *l, emq_error *err)
{
    char made[LAB_PATH_MAX], path[LAB_PATH_MAX];

    (void)snprintf(made, sizeof made, "%s/result.%ld", l->dir, (long)getpid());
    (void)snprintf(path, sizeof path, "%s/result", l->dir);
    if (!write_synced(made, O_TRUNC, EMQ_STR_LIT("done\n")) || rename(made, path) != 0)
        return failed(made, err);
    return EMQ_OK;
}

static int64_t file_count(const struct lab_ledger *l)
{
    char path[LAB_PATH_MAX];

    (void)snprintf(path, sizeof path, "%s/result", l->dir);
    return access(path, F_OK) == 0;
}

/* ---- by strength ------------------------------------------------------------------------- */

emq_status lab_ledger_open(const struct lab_ledger *l, int effect, emq_error *err)
{
    if (effect == LAB_INBOX)
        return lab_inbox_open(l->dir, err);
    if (effect == LAB_TRANSACTIONAL && l->file)
        return lab_row_open(l->file, err);
    return EMQ_OK;
}

emq_status lab_effect_make(const struct lab_ledger *l, int effect, emq_str key, emq_error *err)
{
    switch (effect) {
    case LAB_IDEMPOTENT: return file_place(l, err);
    case LAB_INBOX: return lab_inbox_make(l->dir, key, err);
    case LAB_KEY: return lab_pay_charge(l->pay, l->dir, key, err);
    default: return line_append(l, err);
    }
}

emq_status lab_effect_commit(const struct lab_ledger *l, emq_job *job, emq_error *err)
{
    return l->file ? lab_row_commit(l->c, job, err) : lab_counter_commit(l, job, err);
}

char *lab_effect_text(const struct lab_ledger *l)
{
    char name[LAB_PATH_MAX], text[LAB_PATH_MAX + 40];

    if (l->file)
        return strdup(lab_row_sql);
    lab_counter_name(l, name);
    (void)snprintf(text, sizeof text, "[\"INCR\",\"%s\"]\n", name);
    return strdup(text);
}

emq_status lab_effect_count(const struct lab_ledger *l, int effect, int64_t *out, emq_error *err)
{
    switch (effect) {
    case LAB_IDEMPOTENT: *out = file_count(l); return EMQ_OK;
    case LAB_TRANSACTIONAL:
        return l->file ? lab_row_count(l->file, out, err) : lab_counter_count(l, out, err);
    case LAB_INBOX: return lab_inbox_count(l->dir, out, err);
    case LAB_KEY: return lab_pay_count(l->pay, l->dir, out, err);
    default: return line_count(l, out, err);
    }
}
