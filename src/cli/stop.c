/* SPDX-License-Identifier: MIT
 *
 * See stop.h. A signal handler can only reach a global.
 */
#include "cli/stop.h"

#include "cli/cli.h"

#include <signal.h>
#include <stdatomic.h>

static _Atomic(emq_client *) waiting_client;

static void on_signal(int sig)
{
    (void)sig;
    emq_client *c = atomic_load(&waiting_client);
    if (c)
        emq_interrupt(c);
}

void cli_interrupt_on_signals(emq_client *c)
{
    struct sigaction action = {.sa_handler = on_signal};
    atomic_store(&waiting_client, c);
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
}

static atomic_int kept;

static void keep(int sig)
{
    atomic_store(&kept, sig);
}

void cli_keep_signals(void)
{
    static const int sigs[] = {SIGINT, SIGTERM, SIGHUP};
    struct sigaction action = {.sa_handler = keep, .sa_flags = SA_RESTART | (int)SA_RESETHAND};
    struct sigaction was;

    for (size_t i = 0; i < EMQ_ARRAY_LEN(sigs); i++) {
        sigaction(sigs[i], NULL, &was);
        if (was.sa_handler != SIG_IGN)
            sigaction(sigs[i], &action, NULL);
    }
}

int cli_kept_signal(void)
{
    return atomic_load(&kept);
}

int cli_die_of_signal(const struct cli *cli, const char *what)
{
    int sig = cli_kept_signal();

    cli_say(cli, "%s (%s)", what, strsignal(sig));
    signal(sig, SIG_DFL);
    raise(sig);
    return CLI_NO;
}
