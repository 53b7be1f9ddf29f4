/* SPDX-License-Identifier: MIT
 *
 * What the crash lab takes for theory, against the sentences of docs/guarantees.md. That reality agrees is the lab's
 * own affair.
 */
#include "cli/lab.h"
#include "lab/lab.h"
#include "lib/test.h"

#include <unistd.h>

static struct lab_cell cells[LAB_CELLS_MAX];

/* Calls fn for each cell of both kinds of stores. */
static void each(void (*fn)(const struct lab_cell *c, const struct lab_outcome *o))
{
    for (int server = 0; server <= 1; server++) {
        size_t n = lab_cells(server, cells);
        CHECK(n > 200 && n < LAB_CELLS_MAX);
        for (size_t i = 0; i < n; i++) {
            struct lab_outcome o;
            const char *why = NULL;
            CHECK(lab_theory(&cells[i], &o, &why));
            CHECK(why && why[0]);
            fn(&cells[i], &o);
        }
    }
}

/* A failure names the cell. */
#define ON(c, x)                                                                           \
    do {                                                                                   \
        if (!(x))                                                                          \
            fail_msg("%s: mode %d, %s, %s at %s", #x, (c)->mode, lab_effects[(c)->effect], \
                     lab_faults[(c)->fault], lab_points[(c)->point]);                      \
    } while (0)

static void check_plain(int mode, int fault, int point, int deliveries, int effects, int state)
{
    const struct lab_cell c = {.mode = mode, .effect = LAB_PLAIN, .fault = fault, .point = point};
    struct lab_outcome o;
    const char *why;

    CHECK(lab_theory(&c, &o, &why));
    ON(&c, o.deliveries == deliveries);
    ON(&c, o.effects == effects);
    ON(&c, o.state == state);
}

EMQ_TEST(a_kill_comes_to_what_the_table_of_points_says)
{
    enum { DONE = EMQ_COMPLETED_STATE, FAILED = EMQ_FAILED_STATE, GONE = 0 };

    check_plain(EMQ_AT_LEAST_ONCE, LAB_KILL, EMQ__P0, 1, 1, DONE);
    check_plain(EMQ_AT_LEAST_ONCE, LAB_KILL, EMQ__P1, 2, 1, DONE);
    check_plain(EMQ_AT_LEAST_ONCE, LAB_KILL, EMQ__P2, 2, 1, DONE);
    check_plain(EMQ_AT_LEAST_ONCE, LAB_KILL, EMQ__P3, 2, 2, DONE);
    check_plain(EMQ_AT_LEAST_ONCE, LAB_KILL, EMQ__P4, 1, 1, DONE);
    check_plain(EMQ_AT_LEAST_ONCE, LAB_KILL, EMQ__P5, 1, 1, DONE);
    check_plain(EMQ_AT_LEAST_ONCE, LAB_LOST_ACK, EMQ__P3, 2, 2, DONE);
    check_plain(EMQ_AT_LEAST_ONCE, LAB_LOST_REPLY, EMQ__P4, 1, 1, DONE);
    check_plain(EMQ_AT_LEAST_ONCE, LAB_FREEZE, EMQ__P2, 2, 2, DONE);
    check_plain(EMQ_AT_LEAST_ONCE, LAB_CHILD, EMQ__P2, 2, 1, DONE);
    check_plain(EMQ_AT_MOST_ONCE, LAB_KILL, EMQ__P0, 1, 1, DONE);
    check_plain(EMQ_AT_MOST_ONCE, LAB_KILL, EMQ__P1, 1, 0, FAILED);
    check_plain(EMQ_AT_MOST_ONCE, LAB_KILL, EMQ__P2, 1, 0, FAILED);
    check_plain(EMQ_AT_MOST_ONCE, LAB_KILL, EMQ__P3, 1, 1, FAILED);
    check_plain(EMQ_AT_MOST_ONCE, LAB_KILL, EMQ__P4, 1, 1, DONE);
    check_plain(EMQ_FIRE_AND_FORGET, LAB_KILL, EMQ__P0, 1, 1, GONE);
    check_plain(EMQ_FIRE_AND_FORGET, LAB_KILL, EMQ__P1, 1, 0, GONE);
    check_plain(EMQ_FIRE_AND_FORGET, LAB_KILL, EMQ__P3, 1, 1, GONE);
}

static void loses_only_by_policy(const struct lab_cell *c, const struct lab_outcome *o)
{
    if (c->mode == EMQ_AT_LEAST_ONCE && o->effects == 0)
        ON(c, c->effect == LAB_SKIP || (c->effect == LAB_PARK && o->state == EMQ_FAILED_STATE));
}

EMQ_TEST(at_least_once_loses_an_effect_only_by_a_policy_that_says_so)
{
    each(loses_only_by_policy);
}

static void doubles_only_in_the_gap(const struct lab_cell *c, const struct lab_outcome *o)
{
    if (o->effects < 2)
        return;
    ON(c, c->mode == EMQ_AT_LEAST_ONCE);
    ON(c, c->point == EMQ__P3 || (c->fault == LAB_FREEZE && c->point == EMQ__P2));
    ON(c, c->effect == LAB_PLAIN || c->effect == LAB_REDO ||
              (c->effect == LAB_PROBE && c->fault == LAB_FREEZE));
}

EMQ_TEST(an_effect_is_doubled_only_from_the_gap_on_or_by_an_owner_that_lost_its_lock)
{
    each(doubles_only_in_the_gap);
}

static void delivers_once(const struct lab_cell *c, const struct lab_outcome *o)
{
    if (c->mode != EMQ_AT_LEAST_ONCE)
        ON(c, o->deliveries == 1 && o->effects <= 1);
}

EMQ_TEST(at_most_once_and_fire_and_forget_never_deliver_twice)
{
    each(delivers_once);
}

static void has_one_effect(const struct lab_cell *c, const struct lab_outcome *o)
{
    bool exactly = c->effect == LAB_IDEMPOTENT || c->effect == LAB_TRANSACTIONAL ||
                   c->effect == LAB_INBOX || c->effect == LAB_KEY;

    if (c->mode == EMQ_AT_LEAST_ONCE && exactly)
        ON(c, o->effects == 1 && o->state == EMQ_COMPLETED_STATE);
}

EMQ_TEST(at_least_once_with_a_strength_that_needs_no_policy_has_exactly_one_effect)
{
    each(has_one_effect);
}

EMQ_TEST(a_cell_that_does_not_exist_says_why)
{
    const struct lab_cell none[] = {
        {.fault = LAB_LOST_ACK, .point = EMQ__P1},
        {.fault = LAB_KILL, .point = EMQ__POINT_COUNT},
        {.fault = LAB_FAULTS},
        {.fault = LAB_SERVER, .point = EMQ__P3},
        {.mode = EMQ_FIRE_AND_FORGET, .effect = LAB_TRANSACTIONAL},
        {.mode = EMQ_AT_MOST_ONCE, .effect = LAB_REDO},
    };
    for (size_t i = 0; i < EMQ_ARRAY_LEN(none); i++) {
        struct lab_outcome o;
        const char *why = NULL;
        CHECK(!lab_theory(&none[i], &o, &why));
        CHECK(why && why[0]);
    }
}

/* What is between two lines of a text. */
static char *between(char *text, const char *from, const char *to)
{
    char *begin = strstr(text, from), *end = begin ? strstr(begin, to) : NULL;

    CHECK(end != NULL);
    *end = '\0';
    return begin;
}

static char *read_all(FILE *f)
{
    char *text = NULL;
    size_t cap = 0;

    CHECK(f != NULL);
    rewind(f);
    CHECK(getdelim(&text, &cap, EOF, f) > 0);
    (void)fclose(f);
    return text;
}

/* What the lab would print on a server where all comes as theory says. */
static char *tables_of_theory(void)
{
    static struct lab_result r[LAB_CELLS_MAX];
    size_t n = lab_cells(true, cells);
    FILE *f = tmpfile();
    int out = dup(STDOUT_FILENO);

    CHECK(f != NULL && out >= 0);
    for (size_t i = 0; i < n; i++) {
        r[i] = (struct lab_result){.cell = cells[i], .how = LAB_RAN};
        CHECK(lab_theory(&cells[i], &r[i].expected, &r[i].why));
        r[i].seen = r[i].expected;
    }
    (void)fflush(stdout);
    CHECK(dup2(fileno(f), STDOUT_FILENO) == STDOUT_FILENO);
    cli_lab_markdown(r, n);
    (void)fflush(stdout);
    CHECK(dup2(out, STDOUT_FILENO) == STDOUT_FILENO);
    (void)close(out);
    return read_all(f);
}

/* That the lab finds them so is tested by running it. */
EMQ_TEST(the_tables_of_the_documentation_are_those_of_theory)
{
    const char *path = getenv("EMQ_GUARANTEES");
    char *theory = tables_of_theory();

    CHECK(path != NULL);
    char *page = read_all(fopen(path, "re"));
    CHECK_STR(emq_cstr(between(page, "**at-least-once**\n\n| point", "<!-- lab: end -->")), theory);
    free(page);
    free(theory);
}
