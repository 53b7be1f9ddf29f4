/* SPDX-License-Identifier: MIT
 *
 * Names of states and the table of moves.
 */
#include "model/state.h"

#include "lib/test.h"

EMQ_TEST(state_names_are_bullmqs_and_parse_back)
{
    static const char *const names[] = {"waiting",          "active",    "delayed", "prioritized",
                                        "waiting-children", "completed", "failed"};

    for (int s = 1; s <= EMQ_STATE_COUNT; s++) {
        CHECK_STR(emq_cstr(emq_state_name(s)), names[s - 1]);
        CHECK_INT(emq_state_parse(emq_cstr(names[s - 1])), s);
    }
    CHECK_STR(emq_cstr(emq_state_name(0)), "unknown");
    CHECK_STR(emq_cstr(emq_state_name(8)), "unknown");
    CHECK_STR(emq_cstr(emq_state_name(-1)), "unknown");
    CHECK_INT(emq_state_parse(emq_cstr("wait")), 0);
    CHECK_INT(emq_state_parse(emq_cstr("Waiting")), 0);
    CHECK_INT(emq_state_parse(emq_cstr("unknown")), 0);
    CHECK_INT(emq_state_parse(emq_strn(NULL, 0)), 0);
    CHECK_INT(emq_state_parse(emq_strn("failed\0", 7)), 0);
}

static int count_legal(enum emq__move move)
{
    int n = 0;

    for (int from = 0; from <= EMQ_STATE_COUNT; from++)
        for (int to = 0; to <= EMQ_STATE_COUNT; to++)
            n += emq__move_legal(move, from, to);
    return n;
}

EMQ_TEST(moves_are_exactly_those_of_the_table)
{
    static const struct {
        enum emq__move move;
        int count;
    } table[] = {
        {EMQ__MOVE_ADD, 4},     {EMQ__MOVE_TAKE, 4},       {EMQ__MOVE_COMPLETE, 2},
        {EMQ__MOVE_FAIL, 6},    {EMQ__MOVE_RETRY, 5},      {EMQ__MOVE_RELEASE, 5},
        {EMQ__MOVE_RECOVER, 4}, {EMQ__MOVE_PROMOTE, 2},    {EMQ__MOVE_REPROCESS, 4},
        {EMQ__MOVE_CANCEL, 8},  {EMQ__MOVE_PRIORITIZE, 4}, {EMQ__MOVE_REMOVE, 7},
    };

    for (size_t i = 0; i < EMQ_ARRAY_LEN(table); i++)
        CHECK_INT(count_legal(table[i].move), table[i].count);
}

EMQ_TEST(only_a_take_makes_a_job_active)
{
    for (int move = EMQ__MOVE_ADD; move <= EMQ__MOVE_REMOVE; move++)
        for (int from = 0; from <= EMQ_STATE_COUNT; from++)
            CHECK_INT(emq__move_legal((enum emq__move)move, from, EMQ_ACTIVE),
                      move == EMQ__MOVE_TAKE && (from == EMQ_WAITING || from == EMQ_PRIORITIZED));
}

EMQ_TEST(only_an_active_job_completes_and_a_finished_one_stays_finished)
{
    for (int from = 0; from <= EMQ_STATE_COUNT; from++)
        CHECK_INT(emq__move_legal(EMQ__MOVE_COMPLETE, from, EMQ_COMPLETED_STATE),
                  from == EMQ_ACTIVE);
    for (int move = EMQ__MOVE_ADD; move <= EMQ__MOVE_REMOVE; move++) {
        if (move == EMQ__MOVE_REPROCESS || move == EMQ__MOVE_REMOVE)
            continue;
        for (int to = 0; to <= EMQ_STATE_COUNT; to++) {
            CHECK(!emq__move_legal((enum emq__move)move, EMQ_COMPLETED_STATE, to));
            CHECK(!emq__move_legal((enum emq__move)move, EMQ_FAILED_STATE, to));
        }
    }
}

EMQ_TEST(moves_outside_the_table_are_illegal)
{
    CHECK(!emq__move_legal((enum emq__move)0, 0, 1));
    CHECK(!emq__move_legal((enum emq__move)99, 0, 1));
    CHECK(!emq__move_legal(EMQ__MOVE_ADD, -1, 1));
    CHECK(!emq__move_legal(EMQ__MOVE_REMOVE, 8, 0));
    CHECK(!emq__move_legal(EMQ__MOVE_REMOVE, 1, 33));
}
