/* SPDX-License-Identifier: MIT
 *
 * What a lab that was killed left behind, and how the next one knows that: a living lab holds the lock of a file in
 * its folder, and renews a key that ends by itself on a server.
 */
#ifndef EMQ_LAB_LEAVINGS_H
#define EMQ_LAB_LEAVINGS_H

#include "lab/proc.h"

/* Marks this folder, fresh from lab_folder(), as a living lab's until the process ends, and removes the marked ones
 * beside it that nobody holds any more. 0, or errno: it could not be marked. */
int lab_folder_claim(const char *folder);

/* A thread with a connection of its own. */
struct lab_pulse;
/* Marks this prefix as a living lab's, and removes the keys of labs whose mark has ended. */
emq_status lab_pulse_start(const char *url, const char *prefix, struct lab_pulse **out,
                           emq_error *err);
/* Ends the renewals; the mark goes with the other keys of the prefix, or ends by itself. NULL is allowed. */
void lab_pulse_stop(struct lab_pulse *p);

#endif
