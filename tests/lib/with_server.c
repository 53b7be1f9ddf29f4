/* SPDX-License-Identifier: MIT
 *
 * usage: with_server redis|valkey COMMAND [ARG...]
 * Runs a command beside a server of its own, whose URL is in EMQ_TEST_SERVER, and ends as it did.
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

int main(int argc, char **argv)
{
    bool valkey = argc > 2 && strcmp(argv[1], "valkey") == 0;
    int status = 0;

    if (!valkey && (argc < 3 || strcmp(argv[1], "redis") != 0)) {
        fprintf(stderr, "usage: with_server redis|valkey COMMAND [ARG...]\n");
        return 64;
    }
    struct server *s =
        server_start(&(struct server_opts){.kind = valkey ? SERVER_VALKEY : SERVER_REDIS});
    if (setenv("EMQ_TEST_SERVER", s->url, 1) != 0)
        return 1;
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
    server_end(s);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
