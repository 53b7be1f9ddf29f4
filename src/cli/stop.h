/* SPDX-License-Identifier: MIT
 *
 * INT and TERM end a wait.
 */
#ifndef EMQ_CLI_STOP_H
#define EMQ_CLI_STOP_H

#include <echomq/echomq.h>

/* From now on INT and TERM call emq_interrupt(). The client must live as long as the process waits. */
void cli_interrupt_on_signals(emq_client *c);
/* Which of them came last; 0 = none. */
int cli_stopped_by(void);
/* Ends the process as that signal would have. The exit code, should it be blocked. */
int cli_end_by(int sig);

#endif
