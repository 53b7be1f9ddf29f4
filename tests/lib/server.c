/* SPDX-License-Identifier: MIT
 *
 * See server.h. Readiness is asked for, never waited out: a connection is tried until the server answers
 * or has ended.
 */
#include "lib/server.h"

#include "base/clock.h"
#include "lib/test.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <hiredis/hiredis.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { SERVERS = 16, PATIENCE_MS = 30000, PORT_TRIES = 20 };

static struct server servers[SERVERS];
static pid_t owner; /* a forked child of the test must not clean up */

static void nap(void)
{
    (void)nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
}

static int64_t now_ms(void)
{
    return emq__mono_now().us / 1000;
}

/* ---- folder and ports -------------------------------------------------------------------- */

static int remove_entry(const char *path, const struct stat *st, int kind, struct FTW *ftw)
{
    (void)st, (void)kind, (void)ftw;
    return remove(path);
}

static void make_dir(struct server *s)
{
    const char *base = getenv("TMPDIR");

    (void)snprintf(s->dir, sizeof s->dir, "%s/emq-server-XXXXXX", base && *base ? base : "/tmp");
    if (!mkdtemp(s->dir))
        fail_msg("no folder %s: %s", s->dir, strerror(errno));
    (void)snprintf(s->socket, sizeof s->socket, "%s/socket", s->dir);
}

int server_free_port(void)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof a;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (fd < 0 || bind(fd, (struct sockaddr *)&a, len) != 0 ||
        getsockname(fd, (struct sockaddr *)&a, &len) != 0)
        fail_msg("no free port: %s", strerror(errno));
    (void)close(fd);
    return ntohs(a.sin_port);
}

static void run_openssl(const char *dir, const char *args)
{
    char command[1000];

    (void)snprintf(command, sizeof command,
                   "cd '%s' && openssl req -x509 -nodes -days 30 -newkey ec %s %s 2>&1", dir,
                   "-pkeyopt ec_paramgen_curve:prime256v1", args);
    FILE *p = popen(command, "r");
    char said[1000] = "";
    size_t n = p ? fread(said, 1, sizeof said - 1, p) : 0;
    said[n] = '\0';
    if (!p || pclose(p) != 0)
        fail_msg("no certificate: %s\n%s", command, said);
}

static void make_certificates(struct server *s)
{
    run_openssl(s->dir, "-keyout ca.key -out ca.crt -subj '/CN=test authority'");
    run_openssl(s->dir,
                "-CA ca.crt -CAkey ca.key -keyout server.key -out server.crt -subj /CN=localhost "
                "-addext subjectAltName=DNS:localhost,IP:127.0.0.1 "
                "-addext basicConstraints=critical,CA:FALSE");
}

/* ---- the process ------------------------------------------------------------------------- */

static const char *program(const struct server *s)
{
    return s->o.kind == SERVER_VALKEY ? "valkey-server" : "redis-server";
}

static void write_conf(const struct server *s, const char *path)
{
    FILE *f = fopen(path, "w");

    if (!f)
        fail_msg("%s: %s", path, strerror(errno));
    fprintf(f, "bind 127.0.0.1\ndir %s\nlogfile %s/log\nunixsocket %s\nsave \"\"\ndaemonize no\n",
            s->dir, s->dir, s->socket);
    fprintf(f, s->o.tls ? "port 0\ntls-port %d\n" : "port %d\n", s->port);
    if (s->o.tls)
        fprintf(
            f,
            "tls-cert-file %s/server.crt\ntls-key-file %s/server.key\ntls-ca-cert-file %s/ca.crt\n"
            "tls-auth-clients no\n",
            s->dir, s->dir, s->dir);
    if (s->o.password)
        fprintf(f, "requirepass %s\n", s->o.password);
    if (s->o.aof)
        fputs("appendonly yes\nappendfsync always\n", f);
    if (s->o.cluster)
        fprintf(f,
                "cluster-enabled yes\ncluster-config-file nodes.conf\ncluster-node-timeout 2000\n"
                "cluster-port %d\n",
                s->cluster_port);
    if (s->o.conf)
        fprintf(f, "%s\n", s->o.conf);
    if (fclose(f) != 0)
        fail_msg("%s: %s", path, strerror(errno));
}

static void spawn(struct server *s, const char *conf)
{
    pid_t parent = getpid();

    s->pid = fork();
    if (s->pid < 0)
        fail_msg("fork: %s", strerror(errno));
    if (s->pid != 0)
        return;
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(1);
    int null = open("/dev/null", O_RDWR);
    for (int fd = 0; fd < 3; fd++)
        (void)dup2(null, fd);
    execlp(program(s), program(s), conf, s->o.sentinel ? "--sentinel" : (char *)NULL, (char *)NULL);
    _exit(errno == ENOENT ? 127 : 126);
}

/* Has it ended by itself? Then its pid is gone. */
static bool ended(struct server *s)
{
    int status = 0;

    if (waitpid(s->pid, &status, WNOHANG) != s->pid)
        return false;
    s->pid = 0;
    if (WIFEXITED(status) && WEXITSTATUS(status) == 127)
        fail_msg("%s is not installed: scripts/install test", program(s));
    return true;
}

static void fail_with_log(const struct server *s, const char *what)
{
    char path[230], log[3000] = "";
    (void)snprintf(path, sizeof path, "%s/log", s->dir);
    FILE *f = fopen(path, "r");

    if (f) {
        size_t n = fread(log, 1, sizeof log - 1, f);
        log[n] = '\0';
        (void)fclose(f);
    }
    fail_msg("%s %s %s; its log:\n%s", program(s), s->dir, what, log);
}

static redisContext *admin(struct server *s)
{
    redisContext *c = redisConnectUnixWithTimeout(s->socket, (struct timeval){.tv_sec = 10});

    if (!c || c->err) {
        redisFree(c);
        return NULL;
    }
    (void)redisSetTimeout(c, (struct timeval){.tv_sec = 30});
    if (s->o.password)
        freeReplyObject(redisCommand(c, "AUTH %s", s->o.password));
    return c;
}

static bool answers(struct server *s)
{
    redisContext *c = admin(s);
    redisReply *r = c ? redisCommand(c, "PING") : NULL;
    bool yes = r && r->type == REDIS_REPLY_STATUS;

    freeReplyObject(r);
    if (c)
        redisFree(c);
    return yes;
}

/* False: it ended, say because the port was taken meanwhile. */
static bool run(struct server *s)
{
    char conf[230];
    int64_t until = now_ms() + PATIENCE_MS;

    (void)snprintf(conf, sizeof conf, "%s/server.conf", s->dir);
    if (access(conf, F_OK) != 0 || !s->o.sentinel) /* a sentinel keeps what it knows in there */
        write_conf(s, conf);
    spawn(s, conf);
    while (!answers(s)) {
        if (ended(s))
            return false;
        if (now_ms() > until)
            fail_with_log(s, "does not answer");
        nap();
    }
    return true;
}

static void clean_up(void)
{
    if (getpid() != owner)
        return;
    for (int i = 0; i < SERVERS; i++)
        if (servers[i].dir[0])
            server_end(&servers[i]);
}

struct server *server_start(const struct server_opts *o)
{
    struct server *s = servers;

    while (s < servers + SERVERS && s->dir[0])
        s++;
    CHECK(s < servers + SERVERS);
    if (owner != getpid()) {
        owner = getpid();
        CHECK_INT(atexit(clean_up), 0);
    }
    *s = (struct server){.o = *o};
    make_dir(s);
    if (o->tls)
        make_certificates(s);
    for (int i = 0; i < PORT_TRIES; i++) {
        s->port = server_free_port();
        s->cluster_port = o->cluster ? server_free_port() : 0;
        (void)snprintf(s->url, sizeof s->url, "%s://%s%s%s127.0.0.1:%d",
                       o->tls ? "rediss" : "redis", o->password ? ":" : "",
                       o->password ? o->password : "", o->password ? "@" : "", s->port);
        if (run(s))
            return s;
    }
    fail_with_log(s, "ended at once");
    return NULL;
}

void server_stop(struct server *s, bool hard)
{
    if (!s->pid)
        return;
    (void)kill(s->pid, hard ? SIGKILL : SIGTERM);
    (void)kill(s->pid, SIGCONT); /* it may have been frozen */
    while (waitpid(s->pid, NULL, 0) < 0 && errno == EINTR) {
    }
    s->pid = 0;
}

void server_again(struct server *s)
{
    CHECK_INT(s->pid, 0);
    if (!run(s))
        fail_with_log(s, "did not come back");
}

void server_end(struct server *s)
{
    if (!s)
        return;
    server_stop(s, true);
    if (!getenv("EMQ_TEST_KEEP"))
        (void)nftw(s->dir, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
    s->dir[0] = '\0';
}

/* ---- one for the whole program ------------------------------------------------------------ */

struct server *server_of_program(enum server_kind kind)
{
    static struct server *of[2];

    if (!of[kind])
        of[kind] = server_start(&(struct server_opts){.kind = kind});
    return of[kind];
}

const char *server_asked(void)
{
    enum { DATABASES = 16 };
    static char url[320];
    static int n;
    const char *asked = getenv("EMQ_TEST_ENGINE");
    bool valkey = asked && strcmp(asked, "valkey") == 0;

    if (!valkey && (!asked || strcmp(asked, "redis") != 0))
        return NULL;
    struct server *s = server_of_program(valkey ? SERVER_VALKEY : SERVER_REDIS);
    int database = n++ % DATABASES;
    (void)server_command(s, "EVAL %s 0 %d", "redis.call('SELECT', ARGV[1]) redis.call('FLUSHDB')",
                         database);
    (void)snprintf(url, sizeof url, "%s/%d", s->url, database);
    return url;
}

/* ---- commands ---------------------------------------------------------------------------- */

static void print_reply(FILE *f, const redisReply *r)
{
    switch (r->type) {
    case REDIS_REPLY_INTEGER: fprintf(f, "%lld", r->integer); break;
    case REDIS_REPLY_STRING:
    case REDIS_REPLY_STATUS:
    case REDIS_REPLY_ERROR: (void)fwrite(r->str, 1, (size_t)r->len, f); break;
    case REDIS_REPLY_ARRAY:
        for (size_t i = 0; i < r->elements; i++) {
            fputs(i ? "\n" : "", f);
            print_reply(f, r->element[i]);
        }
        break;
    default: break;
    }
}

const char *server_command(struct server *s, const char *fmt, ...)
{
    static char *text;
    size_t len = 0;
    va_list ap;
    redisContext *c = admin(s);

    if (!c)
        fail_with_log(s, "lets nobody in");
    va_start(ap, fmt);
    redisReply *r = redisvCommand(c, fmt, ap);
    va_end(ap);
    if (!r)
        fail_msg("%s: %s: %s", program(s), fmt, c->errstr);
    free(text);
    text = NULL;
    FILE *f = open_memstream(&text, &len);
    CHECK(f != NULL);
    print_reply(f, r);
    (void)fclose(f);
    freeReplyObject(r);
    redisFree(c);
    return text;
}

long long server_number(const char *reply)
{
    char *end = NULL;
    long long n = strtoll(reply, &end, 10);

    if (end == reply || *end)
        fail_msg("not a number: %s", reply);
    return n;
}

/* ---- cluster ----------------------------------------------------------------------------- */

void server_join(struct server *const *nodes, int n)
{
    enum { SLOTS = 16384 };
    int64_t until = now_ms() + PATIENCE_MS;

    for (int i = 0; i < n; i++) {
        assert_string_equal(server_command(nodes[i], "CLUSTER ADDSLOTSRANGE %d %d", SLOTS * i / n,
                                           SLOTS * (i + 1) / n - 1),
                            "OK");
        assert_string_equal(server_command(nodes[i], "CLUSTER SET-CONFIG-EPOCH %d", i + 1), "OK");
    }
    for (int i = 1; i < n; i++)
        assert_string_equal(server_command(nodes[0], "CLUSTER MEET 127.0.0.1 %d %d", nodes[i]->port,
                                           nodes[i]->cluster_port),
                            "OK");
    for (int i = 0; i < n; i++) {
        char known[40];
        (void)snprintf(known, sizeof known, "cluster_known_nodes:%d\r", n);
        for (;;) {
            const char *info = server_command(nodes[i], "CLUSTER INFO");
            if (strstr(info, "cluster_state:ok") && strstr(info, known))
                break;
            if (now_ms() > until)
                fail_with_log(nodes[i], "is in no cluster");
            nap();
        }
    }
}
