/* SPDX-License-Identifier: MIT
 *
 * INT, TERM and HUP: of a wait, which ends, and of work that puts itself in order before it ends.
 */
#ifndef EMQ_CLI_STOP_H
#define EMQ_CLI_STOP_H

#include <echomq/echomq.h>

struct cli;

/* From now on INT and TERM call emq_interrupt(). The client must live as long as the process waits. */
void cli_interrupt_on_signals(emq_client *c);

/* From now on INT, TERM and HUP, unless they are ignored, are kept; the same again ends the process at once. */
void cli_keep_signals(void);
/* The one that came; 0 = none. */
int cli_kept_signal(void);
/* Says `what` of the kept signal, and dies of it. */
int cli_die_of_signal(const struct cli *cli, const char *what);

#endif
