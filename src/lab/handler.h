/* SPDX-License-Identifier: MIT
 *
 * The user's own program as handler: its worker is killed at each point, the job is brought to its end by another one,
 * and a command of the user's says how much has happened.
 */
#ifndef EMQ_LAB_HANDLER_H
#define EMQ_LAB_HANDLER_H

#include "lab/ground.h"

/* Points beside those of a worker. */
enum { LAB_UNDISTURBED = -1, LAB_MIDDLE = EMQ__POINT_COUNT };

struct lab_handler {
    char *const *argv; /* the program */
    const char *check; /* a shell command that prints a number */
    emq_str data;      /* of the jobs */
    int mode;
    /* how much the check grows by one undisturbed run, the same by each; set by the first */
    int64_t unit;
    int64_t run_ms;   /* how long the program took; 0 = not known */
    bool unstartable; /* the program can't be started; set by a run that failed for it */
};

/* One job. At LAB_MIDDLE the worker is killed in the middle of the program, if
 * that is slow enough for it. Failures: the store's; E_SYSTEM: what the
 * check printed, or a worker that does not end. */
emq_status lab_handler_run(struct lab_ground *g, struct lab_handler *h, int point,
                           struct lab_outcome *out, emq_error *err);

#endif
