/* SPDX-License-Identifier: MIT
 *
 * A payment server that honours idempotency keys, as those of the trade do: the first request with a key moves
 * money, a later one gets the first one's receipt. It keeps its books in memory; nobody kills it.
 */
#include "lab/ledger.h"

#include "base/error.h"
#include "base/map.h"
#include "base/str.h"

#include <errno.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { LINE_MAX_LEN = 2000, WAIT_S = 20 };

/* ---- both ends --------------------------------------------------------------------------- */

/* false: the path is too long. */
static bool address(const char *path, struct sockaddr_un *out)
{
    size_t n = strlen(path);

    *out = (struct sockaddr_un){.sun_family = AF_UNIX};
    if (n >= sizeof out->sun_path)
        return false;
    memcpy(out->sun_path, path, n + 1);
    return true;
}

/* A line without its end; false: there is none. */
static bool read_line(int fd, char line[LINE_MAX_LEN])
{
    for (size_t n = 0; n + 1 < LINE_MAX_LEN;) {
        ssize_t got = read(fd, line + n, 1);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return false;
        if (line[n] == '\n') {
            line[n] = '\0';
            return true;
        }
        n++;
    }
    return false;
}

static bool write_all(int fd, const char *p, size_t n)
{
    while (n > 0) {
        ssize_t done = send(fd, p, n, MSG_NOSIGNAL);
        if (done < 0 && errno == EINTR)
            continue;
        if (done <= 0)
            return false;
        p += done;
        n -= (size_t)done;
    }
    return true;
}

/* ---- the server -------------------------------------------------------------------------- */

struct books {
    struct emq__map receipts; /* by "account key" */
    struct emq__map charges;  /* by account */
    uintptr_t last;
};

static bool charge(struct books *b, char *account, const char *rest, uintptr_t *receipt)
{
    char whole[2 * LINE_MAX_LEN];

    (void)snprintf(whole, sizeof whole, "%s %s", account, rest);
    *receipt = (uintptr_t)emq__map_get(&b->receipts, emq_cstr(whole));
    if (*receipt)
        return true;
    uintptr_t moved = (uintptr_t)emq__map_get(&b->charges, emq_cstr(account));
    *receipt = ++b->last;
    return emq__map_put(&b->receipts, emq_cstr(whole), (void *)*receipt) &&
           emq__map_put(&b->charges, emq_cstr(account), (void *)(moved + 1));
}

static void serve(struct books *b, int fd)
{
    char line[LINE_MAX_LEN], answer[60] = "what?\n";
    char *account, *key;
    uintptr_t n = 0;

    if (!read_line(fd, line))
        return;
    account = strchr(line, ' ');
    key = account ? strrchr(line, ' ') : NULL;
    if (account && emq__str_starts(emq_cstr(line), "charge ") && key > account) {
        *key++ = '\0';
        if (charge(b, account + 1, key, &n))
            (void)snprintf(answer, sizeof answer, "receipt %ju\n", (uintmax_t)n);
    } else if (account && emq__str_starts(emq_cstr(line), "count ")) {
        n = (uintptr_t)emq__map_get(&b->charges, emq_cstr(account + 1));
        (void)snprintf(answer, sizeof answer, "%ju\n", (uintmax_t)n);
    }
    (void)write_all(fd, answer, strlen(answer));
}

int lab_pay_serve(const char *path)
{
    struct books b = {0};
    struct sockaddr_un a;
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (fd < 0)
        return errno;
    if (!address(path, &a))
        return ENAMETOOLONG;
    if (bind(fd, (const struct sockaddr *)&a, sizeof a) != 0 || listen(fd, SOMAXCONN) != 0)
        return errno;
    for (;;) {
        const struct timeval patience = {.tv_sec = WAIT_S};
        int who = accept4(fd, NULL, NULL, SOCK_CLOEXEC);
        if (who < 0 && errno != EINTR && errno != ECONNABORTED)
            return errno;
        if (who < 0)
            continue;
        (void)setsockopt(who, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
        serve(&b, who);
        (void)close(who);
    }
}

/* ---- its customers ----------------------------------------------------------------------- */

static emq_status ask(const char *path, const char *request, char answer[LINE_MAX_LEN],
                      emq_error *err)
{
    const struct timeval patience = {.tv_sec = WAIT_S};
    struct sockaddr_un a;
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool good = fd >= 0 && address(path, &a) &&
                setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience) == 0 &&
                connect(fd, (const struct sockaddr *)&a, sizeof a) == 0 &&
                write_all(fd, request, strlen(request)) && read_line(fd, answer);
    int why = errno;

    if (fd >= 0)
        (void)close(fd);
    if (good)
        return EMQ_OK;
    return emq__fail(err, EMQ_E_SYSTEM, why, "lab", "the payment server at %s: %s", path,
                     strerror(why));
}

emq_status lab_pay_charge(const char *path, const char *account, emq_str key, emq_error *err)
{
    char request[LINE_MAX_LEN], answer[LINE_MAX_LEN];

    (void)snprintf(request, sizeof request, "charge %s %.*s\n", account, EMQ_STR_ARG(key));
    emq_status s = ask(path, request, answer, err);
    if (s == EMQ_OK && !emq__str_starts(emq_cstr(answer), "receipt "))
        s = emq__fail(err, EMQ_E_SYSTEM, 0, "lab", "the payment server says \"%.60s\"", answer);
    return s;
}

emq_status lab_pay_count(const char *path, const char *account, int64_t *out, emq_error *err)
{
    char request[LINE_MAX_LEN], answer[LINE_MAX_LEN];

    (void)snprintf(request, sizeof request, "count %s\n", account);
    emq_status s = ask(path, request, answer, err);
    if (s == EMQ_OK && !emq__str_to_i64(emq_cstr(answer), out))
        s = emq__fail(err, EMQ_E_SYSTEM, 0, "lab", "the payment server says \"%.60s\"", answer);
    return s;
}
