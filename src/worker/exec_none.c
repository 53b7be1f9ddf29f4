/* SPDX-License-Identifier: MIT
 *
 * Programs as handlers, left out: a build without exec refuses argv and says so.
 */
#include "worker/exec.h"

#include "base/error.h"

emq_status emq__exec_open(struct emq__exec **out, const struct emq__exec_config *cfg, emq_error *err)
{
    (void)out;
    return emq__fail(err, EMQ_E_INVALID, 0, "emq_worker_start",
                     "this build can't run programs (%s): give a handler", cfg->argv[0]);
}

emq_status emq__exec_run(struct emq__exec *x, struct emq__slot *s, struct emq__exec_result *out,
                         emq_error *err)
{
    (void)x;
    (void)s;
    (void)out;
    return emq__fail(err, EMQ_E_INVALID, 0, "emq_worker_start", "this build can't run programs");
}

void emq__exec_lease(struct emq__exec *x, int index, int64_t fence, struct emq__mono safe_until)
{
    (void)x;
    (void)index;
    (void)fence;
    (void)safe_until;
}

void emq__exec_close(struct emq__exec *x)
{
    (void)x;
}
