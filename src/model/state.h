/* SPDX-License-Identifier: MIT
 *
 * The state table: which act may move a job from which state to which. One table; SQL and scripts
 * are tested against it.
 */
#ifndef EMQ_MODEL_STATE_H
#define EMQ_MODEL_STATE_H

#include "base/base.h"

enum emq__move {
    EMQ__MOVE_ADD = 1, /* from nothing (0) */
    EMQ__MOVE_TAKE,
    EMQ__MOVE_COMPLETE,
    EMQ__MOVE_FAIL,  /* by its owner, by force, or deferred */
    EMQ__MOVE_RETRY, /* an attempt failed: back to the line or delayed */
    EMQ__MOVE_RELEASE,
    EMQ__MOVE_RECOVER, /* sweep */
    EMQ__MOVE_PROMOTE,
    EMQ__MOVE_REPROCESS,  /* completed or failed, back to work */
    EMQ__MOVE_CANCEL,     /* not active: failed at once */
    EMQ__MOVE_PRIORITIZE, /* change of priority: waiting <-> prioritized */
    EMQ__MOVE_REMOVE      /* to nothing (0) */
};
/* from and to are emq_state or 0 (no such job). */
bool emq__move_legal(enum emq__move move, int from, int to);

#endif
