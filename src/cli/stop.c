/* SPDX-License-Identifier: MIT
 *
 * See stop.h. A signal handler can only reach a global.
 */
#include "cli/stop.h"

#include <signal.h>
#include <stdatomic.h>

static _Atomic(emq_client *) waiting_client;
static atomic_int stopped_by;

static void on_signal(int sig)
{
    atomic_store(&stopped_by, sig);
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

int cli_stopped_by(void)
{
    return atomic_load(&stopped_by);
}

int cli_end_by(int sig)
{
    (void)signal(sig, SIG_DFL);
    (void)raise(sig);
    return 128 + sig;
}
