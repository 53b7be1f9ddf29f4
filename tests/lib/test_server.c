/* SPDX-License-Identifier: MIT
 *
 * The servers that tests start: what they promise in server.h.
 */
#include "lib/server.h"

#include "lib/test.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static struct server *start(enum server_kind kind)
{
    return server_start(&(struct server_opts){.kind = kind});
}

EMQ_TEST(a_server_of_either_kind_answers_under_its_own_name)
{
    struct server *redis = start(SERVER_REDIS), *valkey = start(SERVER_VALKEY);

    CHECK(redis->port != valkey->port);
    CHECK(strstr(server_command(redis, "INFO server"), "redis_version:7.") != NULL);
    CHECK(strstr(server_command(valkey, "INFO server"), "server_name:valkey") != NULL);
    server_end(redis);
    server_end(valkey);
}

EMQ_TEST(a_server_with_an_append_only_file_keeps_its_keys_over_a_kill)
{
    struct server *s = server_start(&(struct server_opts){.aof = true});

    assert_string_equal(server_command(s, "SET %s %s", "a key", "a value"), "OK");
    server_stop(s, true);
    server_again(s);
    assert_string_equal(server_command(s, "GET %s", "a key"), "a value");
    server_end(s);
}

EMQ_TEST(a_server_without_one_forgets_them)
{
    struct server *s = start(SERVER_VALKEY);

    assert_string_equal(server_command(s, "SET k v"), "OK");
    server_stop(s, false);
    server_again(s);
    assert_string_equal(server_command(s, "GET k"), "");
    server_end(s);
}

EMQ_TEST(a_stopped_server_leaves_no_folder)
{
    struct server *s = start(SERVER_REDIS);
    char dir[sizeof s->dir];
    struct stat st;

    memcpy(dir, s->dir, sizeof dir);
    CHECK_INT(stat(dir, &st), 0);
    server_end(s);
    CHECK(stat(dir, &st) != 0 && errno == ENOENT);
}

EMQ_TEST(a_server_with_a_password_and_tls_lets_in_who_knows_both)
{
    struct server *s = server_start(&(struct server_opts){.tls = true, .password = "secret"});
    char command[1000], said[100] = "";

    CHECK(strncmp(s->url, "rediss://:secret@127.0.0.1:", 27) == 0);
    (void)snprintf(command, sizeof command,
                   "REDISCLI_AUTH=secret redis-cli --tls --cacert %s/ca.crt -p %d PING 2>&1",
                   s->dir, s->port);
    FILE *p = popen(command, "r");
    CHECK(p != NULL && fgets(said, sizeof said, p) != NULL);
    CHECK_INT(pclose(p), 0);
    assert_string_equal(said, "PONG\n");
    server_end(s);
}

EMQ_TEST(three_servers_form_a_cluster)
{
    for (enum server_kind kind = SERVER_REDIS; kind <= SERVER_VALKEY; kind++) {
        struct server *nodes[3];
        for (int i = 0; i < 3; i++)
            nodes[i] = server_start(&(struct server_opts){.kind = kind, .cluster = true});
        server_join(nodes, 3);
        int moved = 0;
        for (int i = 0; i < 3; i++)
            moved += strncmp(server_command(nodes[i], "GET key"), "MOVED 12539 ", 12) == 0;
        CHECK_INT(moved, 2);
        for (int i = 0; i < 3; i++)
            server_end(nodes[i]);
    }
}

EMQ_TEST(a_sentinel_watches_a_primary)
{
    struct server *primary = start(SERVER_REDIS);
    char conf[100];
    (void)snprintf(conf, sizeof conf, "sentinel monitor main 127.0.0.1 %d 1", primary->port);
    struct server *s = server_start(&(struct server_opts){.sentinel = true, .conf = conf});

    CHECK(strstr(server_command(s, "SENTINEL get-master-addr-by-name main"), "127.0.0.1") != NULL);
    server_end(s);
    server_end(primary);
}

/* The test program's place is taken by a child, which is killed. */
EMQ_TEST(a_server_dies_with_the_program_that_started_it)
{
    int pipes[2];
    pid_t server = 0;
    char dir[sizeof((struct server *)0)->dir];

    CHECK_INT(prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
    CHECK_INT(pipe(pipes), 0);
    pid_t child = fork();
    if (child == 0) {
        struct server *s = start(SERVER_REDIS);
        bool told = write(pipes[1], &s->pid, sizeof s->pid) == sizeof s->pid &&
                    write(pipes[1], s->dir, sizeof s->dir) == sizeof s->dir;
        for (;;)
            (void)(told ? pause() : raise(SIGKILL));
    }
    CHECK_INT(read(pipes[0], &server, sizeof server), sizeof server);
    CHECK_INT(read(pipes[0], dir, sizeof dir), sizeof dir);
    CHECK_INT(kill(server, 0), 0);
    CHECK_INT(kill(child, SIGKILL), 0);
    CHECK_INT(waitpid(child, NULL, 0), child);
    int status = 0;
    CHECK_INT(waitpid(server, &status, 0), server);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    (void)close(pipes[0]);
    (void)close(pipes[1]);
    char command[300]; /* nobody was left to remove it */
    (void)snprintf(command, sizeof command, "rm -r '%s'", dir);
    CHECK_INT(system(command), 0);
}
