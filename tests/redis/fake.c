/* SPDX-License-Identifier: MIT */
#include "redis/fake.h"

#include "lib/test.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* "*2\r\n$3\r\n...": keeps the first word. */
static bool read_command(FILE *in, char word[16])
{
    char line[64];

    if (!fgets(line, sizeof line, in))
        return false;
    for (long i = 0, n = strtol(line + 1, NULL, 10); i < n; i++) {
        if (!fgets(line, sizeof line, in))
            return false;
        for (long at = 0, len = strtol(line + 1, NULL, 10) + 2; at < len; at++) {
            int c = fgetc(in);
            if (c == EOF)
                return false;
            if (i == 0 && at < 15)
                word[at] = (char)(at < len - 2 ? c : '\0');
        }
    }
    return true;
}

static void serve(struct fake *f, FILE *in, int fd)
{
    char word[16] = "", out[1024];

    while (read_command(in, word)) {
        const char *text = "+OK\r\n";
        if (strcmp(word, "INFO") == 0) {
            (void)snprintf(out, sizeof out, "$%zu\r\n%s\r\n", strlen(f->info), f->info);
            text = out;
        } else if (strcmp(word, "TIME") == 0) {
            text = "*2\r\n$1\r\n1\r\n$1\r\n1\r\n";
        } else if (f->answer && strcmp(word, "EVALSHA") == 0) {
            atomic_fetch_add(&f->asked, 1);
            (void)snprintf(out, sizeof out, "%s\r\n", f->answer);
            text = out;
        }
        if (send(fd, text, strlen(text), MSG_NOSIGNAL) < 0)
            return;
    }
}

static void *run(void *arg)
{
    struct fake *f = arg;
    int fd;

    while ((fd = accept4(f->listener, NULL, NULL, SOCK_CLOEXEC)) >= 0) {
        FILE *in = fdopen(fd, "r");
        if (!in)
            abort();
        serve(f, in, fd);
        (void)fclose(in);
    }
    return NULL;
}

void fake_start(struct fake *f)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof a;

    f->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK_INT(bind(f->listener, (struct sockaddr *)&a, len), 0);
    CHECK_INT(listen(f->listener, 8), 0);
    CHECK_INT(getsockname(f->listener, (struct sockaddr *)&a, &len), 0);
    f->port = ntohs(a.sin_port);
    CHECK_INT(pthread_create(&f->thread, NULL, run, f), 0);
}

void fake_end(struct fake *f)
{
    (void)shutdown(f->listener, SHUT_RDWR);
    (void)pthread_join(f->thread, NULL);
    (void)close(f->listener);
}
