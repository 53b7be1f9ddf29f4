/* SPDX-License-Identifier: MIT
 *
 * Programs without memory: the nth allocation fails, for every n until none does. The job is given back
 * or ends as it should; no process and no descriptor stays behind.
 */
#include "exec_fake.h"

#include "lib/failmalloc.h"

#include "base/str.h"

enum { NTH_MAX = 500 };

#define ONCE "cat; echo words >&2; echo 'progress 1' >&3; echo log x >&3"
#define KEPT                                                              \
    "while read -r line; do echo '{\"log\":\"x\",\"progress\":1}'; echo " \
    "'{\"result\":\"12345\"}'; "                                          \
    "done"

static void check_run(struct rig *r, bool failed, const char *result)
{
    CHECK(failed || r->status == EMQ_OK);
    if (r->status != EMQ_OK)
        CHECK(r->status == EMQ_E_NOMEM || r->status == EMQ_E_SYSTEM);
    else if (r->res.kind == EMQ__EXEC_DONE)
        CHECK_STR(r->res.result, result);
    else
        CHECK(failed && r->res.kind == EMQ__EXEC_RETRY && r->res.reason.len > 0);
}

static void every_allocation(bool stream, const char *script, const char *result)
{
    bool failed = true;

    for (size_t nth = 1; failed; nth++) {
        struct rig *r = stream ? rig_sh_stream(script) : rig_sh(script);
        int before = open_fds();
        CHECK(nth < NTH_MAX);
        rig_slot(r, EMQ_STR_LIT("12345"));
        test_fail_alloc(nth);
        r->status = emq__exec_run(r->x, r->s, &r->res, &r->err);
        failed = test_alloc_failed();
        check_run(r, failed, result);
        if (!stream) {
            CHECK_INT(emq__supervisor_ward(r->x->supervisor, 0)->state, EMQ__WARD_FREE);
            CHECK_INT(open_fds(), before + 1); /* the slot's bell */
        } else if (failed) {
            /* The next job is served whatever happened to this one. */
            emq__arena_free(&r->res.mem);
            rig_slot(r, EMQ_STR_LIT("12345"));
            r->status = emq__exec_run(r->x, r->s, &r->res, &r->err);
            check_run(r, false, result);
            CHECK_INT(r->res.kind, EMQ__EXEC_DONE);
        }
        rig_close(r);
    }
}

EMQ_TEST(a_run_without_memory_leaves_nothing_behind)
{
    every_allocation(false, ONCE, "12345");
}

EMQ_TEST(a_kept_program_survives_a_job_without_memory)
{
    every_allocation(true, KEPT, "\"12345\"");
}

EMQ_TEST(opening_without_memory_says_so)
{
    const char *argv[] = {"sh", "-c", KEPT, NULL};
    struct emq__exec_config cfg = {.argv = argv, .concurrency = 2, .stream = true};
    bool failed = true;
    int before = open_fds();

    for (size_t nth = 1; failed; nth++) {
        struct emq__exec *x = NULL;
        emq_error err = {0};
        CHECK(nth < NTH_MAX);
        test_fail_alloc(nth);
        emq_status s = emq__exec_open(&x, &cfg, &err);
        failed = test_alloc_failed();
        CHECK_STATUS_ERR(s, failed ? EMQ_E_NOMEM : EMQ_OK, &err);
        emq__exec_close(x);
        CHECK_INT(open_fds(), before);
    }
}
