/* SPDX-License-Identifier: MIT
 *
 * What a caller gets for arguments that can't be meant: a named refusal, nothing read behind NULL or
 * behind a length, nothing changed.
 */
#include "client_fixture.h"

#include <echomq/worker.h>

#define NOWHERE emq_strn(NULL, 10)      /* bytes at NULL */
#define HUGE_S  emq_strn("x", SIZE_MAX) /* more bytes than there are */
#define REFUSED(call)                                       \
    do {                                                    \
        emq_error err = {0};                                \
        CHECK_STATUS((call), EMQ_E_INVALID);                \
        CHECK_INT(err.status, EMQ_E_INVALID);               \
        CHECK_INT(err.cls, EMQ_CLASS_CALLER);               \
        CHECK(err.where[0] != '\0' && err.text[0] != '\0'); \
    } while (0)

EMQ_TEST(texts_at_null_and_texts_of_impossible_length_are_refused)
{
    const emq_str odd[] = {NOWHERE, HUGE_S};
    struct fixture f;
    emq_job *job = NULL, *other = NULL;
    emq_list *list = NULL;
    char owner[EMQ_ID_MAX + 1];

    fixture_open(&f);
    add_id(&f, "a");
    job = take_one(&f);
    emq_str id = emq_job_id(job), token = emq_job_token(job);
    for (size_t i = 0; i < EMQ_ARRAY_LEN(odd); i++) {
        emq_settle_opts done = {.size = sizeof done, .kind = EMQ_SETTLE_COMPLETED, .value = odd[i]};
        emq_settle_opts plain = {.size = sizeof plain, .kind = EMQ_SETTLE_COMPLETED};
        emq_find_opts find = {.size = sizeof find, .after_id = odd[i]};
        emq_take_opts take = {.size = sizeof take, .worker = odd[i]};
        emq_add_opts add = {.size = sizeof add, .id = odd[i]};

        REFUSED(emq_add(f.c, odd[i], NONE, NULL, NULL, &err));
        REFUSED(emq_add(f.c, Q, odd[i], NULL, NULL, &err));
        REFUSED(emq_add(f.c, Q, NONE, &add, NULL, &err));
        REFUSED(emq_get(f.c, Q, odd[i], &other, &err));
        REFUSED(emq_take(f.c, Q, &take, &other, &err));
        REFUSED(emq_claims(f.c, odd[i], &list, &err));
        REFUSED(emq_extend(f.c, Q, id, odd[i], 0, &err));
        REFUSED(emq_settle(f.c, Q, id, odd[i], &plain, &err));
        REFUSED(emq_settle(f.c, Q, id, token, &done, &err));
        REFUSED(emq_set_progress(f.c, Q, id, odd[i], S("1"), &err));
        REFUSED(emq_set_progress(f.c, Q, id, token, odd[i], &err));
        REFUSED(emq_set_data(f.c, Q, id, odd[i], S("1"), &err));
        REFUSED(emq_set_data(f.c, Q, id, token, odd[i], &err));
        REFUSED(emq_add_log(f.c, Q, id, odd[i], S("1"), &err));
        REFUSED(emq_find(f.c, Q, &find, &list, &err));
        REFUSED(emq_events(f.c, Q, odd[i], 1, 0, &list, NULL, &err));
        REFUSED(emq_dedup_show(f.c, Q, odd[i], owner, NULL, &err));
        REFUSED(emq_dedup_release(f.c, Q, S("d"), odd[i], &err));
    }
    emq_settle_opts failed = {.size = sizeof failed, .kind = EMQ_SETTLE_FAILED, .value = NOWHERE};
    REFUSED(emq_settle(f.c, Q, id, token, &failed, &err));
    failed = (emq_settle_opts){.size = sizeof failed, .kind = EMQ_SETTLE_FAILED, .stack = NOWHERE};
    REFUSED(emq_settle(f.c, Q, id, token, &failed, &err));
    REFUSED(emq_add_log(f.c, Q, id, token, NOWHERE, &err));
    CHECK_INT(settle(&f, job, EMQ_SETTLE_COMPLETED, "1", 0), EMQ_OK); /* and nothing had changed */
    emq_job_free(job);
    fixture_close(&f);
}

EMQ_TEST(structs_whose_size_was_never_set_are_refused_unread_and_unwritten)
{
    const size_t garbage[] = {0, 7, 1 << 20, SIZE_MAX / 2};
    struct fixture f;
    emq_job *job = NULL;
    emq_list *list = NULL;
    int64_t n;

    fixture_open(&f);
    add_id(&f, "a");
    for (size_t i = 0; i < EMQ_ARRAY_LEN(garbage); i++) {
        emq_queue_stats stats = {.size = garbage[i]};
        emq_settle_opts settle_opts = {.size = garbage[i], .kind = EMQ_SETTLE_COMPLETED};
        emq_sweep_opts sweep = {.size = garbage[i]};
        emq_take_opts take = {.size = garbage[i]};
        emq_find_opts find = {.size = garbage[i]};
        emq_added added = {.size = garbage[i]};
        emq_add_opts add = {.size = garbage[i]};
        emq_new_job new_job = {.size = garbage[i], .queue = Q};
        const emq_new_job *jobs[] = {&new_job};

        REFUSED(emq_add(f.c, Q, NONE, &add, NULL, &err));
        REFUSED(emq_add(f.c, Q, NONE, NULL, &added, &err));
        REFUSED(emq_add_many(f.c, jobs, 1, NULL, &err));
        REFUSED(emq_take(f.c, Q, &take, &job, &err));
        REFUSED(emq_settle(f.c, Q, S("a"), S("t:1"), &settle_opts, &err));
        REFUSED(emq_find(f.c, Q, &find, &list, &err));
        REFUSED(emq_stats(f.c, Q, &stats, &err));
        REFUSED(emq_sweep(f.c, Q, &sweep, &n, &n, &err));
    }
    CHECK_INT(count_of_state(&f, EMQ_WAITING), 1);
    fixture_close(&f);
}

EMQ_TEST(numbers_beyond_their_range_are_refused_with_the_range)
{
    struct fixture f;
    emq_job *job = NULL;
    emq_error last = {0};

    fixture_open(&f);
    REFUSED(emq_wait(f.c, Q, S("a"), -2, NULL, &err));
    REFUSED(emq_set_delay(f.c, Q, S("a"), INT64_MIN, &err));
    REFUSED(emq_set_priority(f.c, Q, S("a"), EMQ_PRIORITY_MAX + 1, 0, &err));
    REFUSED(emq_clear_logs(f.c, Q, S("a"), -1, &err));
    REFUSED(emq_retry(f.c, Q, S("a"), 64, &err));
    emq_take_opts take = {.size = sizeof take, .lock_ms = INT64_MAX};
    REFUSED(emq_take(f.c, Q, &take, &job, &err));
    CHECK_STATUS(emq_set_concurrency(f.c, Q, INT64_MAX, &last), EMQ_E_INVALID);
    CHECK(strstr(last.text, "9223372036854775807") && strstr(last.text, "9007199254740992"));
    CHECK_STATUS(emq_set_concurrency(f.c, Q, INT64_C(1) << 53, &last), EMQ_OK);
    fixture_close(&f);
}
