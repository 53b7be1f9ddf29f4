/* SPDX-License-Identifier: MIT
 *
 * See stop.h. A signal handler can only reach a global.
 */
#include "cli/stop.h"

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
