/* SPDX-License-Identifier: MIT
 *
 * usage: with_server redis|valkey|cluster COMMAND [ARG...]
 * Runs a command beside a server of its own, whose URL is in EMQ_TEST_SERVER, and ends as it did. cluster: beside
 * three nodes of Redis, whose URL is in EMQ_TEST_CLUSTER.
 */
#include "lib/server.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { NODES = 3 };

/* Starts what is asked for, and tells the command where it is. The number of servers, 0: unknown. */
static int start(const char *what, struct server **s)
{
    char url[200];

    if (strcmp(what, "redis") == 0 || strcmp(what, "valkey") == 0) {
        s[0] = server_start(
            &(struct server_opts){.kind = what[0] == 'v' ? SERVER_VALKEY : SERVER_REDIS});
        return setenv("EMQ_TEST_SERVER", s[0]->url, 1) == 0;
    }
    if (strcmp(what, "cluster") != 0)
        return 0;
    for (int i = 0; i < NODES; i++)
        s[i] = server_start(&(struct server_opts){.cluster = true});
    server_join(s, NODES);
    (void)snprintf(url, sizeof url, "redis+cluster://127.0.0.1:%d,127.0.0.1:%d,127.0.0.1:%d",
                   s[0]->port, s[1]->port, s[2]->port);
    return setenv("EMQ_TEST_CLUSTER", url, 1) == 0 ? NODES : 0;
}

int main(int argc, char **argv)
{
    struct server *s[NODES];
    int status = 0, n = argc > 2 ? start(argv[1], s) : 0;

    if (n == 0) {
        fprintf(stderr, "usage: with_server redis|valkey|cluster COMMAND [ARG...]\n");
        return 64;
    }
    pid_t parent = getpid(), child = fork();
    if (child == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGTERM);
        if (getppid() != parent)
            _exit(1);
        execvp(argv[2], argv + 2);
        perror(argv[2]);
        _exit(127);
    }
    while (waitpid(child, &status, 0) < 0)
        if (errno != EINTR)
            return 1;
    while (n-- > 0)
        server_end(s[n]);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
