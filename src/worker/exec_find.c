/* SPDX-License-Identifier: MIT
 *
 * Finding the command as a shell does, once: a worker that can't start its program must say so before
 * it takes the first job, with the name and the reason.
 */
#include "worker/exec_internal.h"

#include "base/error.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#define DEFAULT_PATH "/usr/local/bin:/usr/bin:/bin"

/* 0, or why this file can't be started. */
static int why_not(const char *path)
{
    struct stat st;

    if (stat(path, &st) != 0)
        return errno;
    if (!S_ISREG(st.st_mode))
        return S_ISDIR(st.st_mode) ? EISDIR : EACCES;
    return faccessat(AT_FDCWD, path, X_OK, AT_EACCESS) == 0 ? 0 : errno;
}

static emq_status refuse(const char *command, int native, emq_error *err)
{
    const char *hint = "";

    if (native == ENOENT)
        hint = strchr(command, '/') ? ": check the path"
                                    : " in PATH: check the name, or give its path";
    else if (native == EACCES)
        hint = ": make it executable (chmod +x), or start its interpreter";
    return emq__fail(err, EMQ_E_INVALID, native, "exec",
                     "the command \"%s\" can't be started: %s%s", command,
                     native == ENOENT ? "not found" : strerror(native), hint);
}

emq_status emq__exec_find(const char *command, struct emq__arena *mem, const char **out,
                          emq_error *err)
{
    if (!command || !*command)
        return emq__fail(err, EMQ_E_INVALID, 0, "exec", "the command is empty");
    if (strchr(command, '/')) {
        int native = why_not(command);
        if (native != 0)
            return refuse(command, native, err);
        *out = emq__arena_str(mem, emq_cstr(command)).ptr;
        return *out ? EMQ_OK : emq__no_memory("exec", err);
    }

    const char *path = getenv("PATH");
    int worst = ENOENT;
    if (!path)
        path = DEFAULT_PATH;
    for (const char *end;; path = end + 1) {
        end = strchrnul(path, ':');
        emq_str dir = end == path ? EMQ_STR_LIT(".") : emq_strn(path, (size_t)(end - path));
        emq_str full = emq__arena_printf(mem, "%.*s/%s", EMQ_STR_ARG(dir), command);
        if (!full.ptr)
            return emq__no_memory("exec", err);
        int native = why_not(full.ptr);
        if (native == 0) {
            *out = full.ptr;
            return EMQ_OK;
        }
        if (native == EACCES)
            worst = EACCES;
        if (*end == '\0')
            return refuse(command, worst, err);
    }
}
