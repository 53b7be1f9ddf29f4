/* SPDX-License-Identifier: MIT
 *
 * The matrix as tables of docs/guarantees.md.
 */
#include "cli/lab.h"

struct results {
    const struct lab_result *r;
    size_t n;
    int mode;
};

/* NULL: there is no such cell, or it was not asked for. effect < 0: of any strength. */
static const struct lab_result *find(const struct results *x, int effect, int fault, int point)
{
    for (size_t i = 0; i < x->n; i++) {
        const struct lab_cell *c = &x->r[i].cell;
        if (c->mode == x->mode && (effect < 0 || c->effect == effect) &&
            (fault < 0 || c->fault == fault) && (point < 0 || c->point == point))
            return &x->r[i];
    }
    return NULL;
}

/* `usual`: the state that the row names. */
static void put_cell(const struct lab_result *r, int usual)
{
    if (!r || r->how == LAB_NOT_RUN)
        (void)printf(" %s |", r ? "not run" : "–");
    else if (!lab_as_expected(r))
        (void)printf(" **DIFFERS** |");
    else
        (void)printf(r->seen.effects == 1 ? " %lld%s |" : " **%lld**%s |",
                     (long long)r->seen.effects,
                     r->seen.state == usual              ? ""
                     : r->seen.state == EMQ_FAILED_STATE ? ", parked"
                                                         : ", completed");
}

static void put_row(const struct results *x, int fault, int point)
{
    const struct lab_result *first = find(x, -1, fault, point);

    if (!first)
        return;
    (void)printf("| %s | %s | %lld | %s |", lab_points[point], lab_faults[fault],
                 (long long)first->expected.deliveries, lab_state(first->expected.state));
    for (int e = 0; e < LAB_EFFECTS; e++)
        if (find(x, e, -1, -1))
            put_cell(find(x, e, fault, point), first->expected.state);
    (void)printf("\n");
}

void cli_lab_markdown(const struct lab_result *r, size_t n)
{
    struct results x = {.r = r, .n = n};
    bool any = false;

    for (x.mode = 0; x.mode <= EMQ_FIRE_AND_FORGET; x.mode++) {
        if (!find(&x, -1, -1, -1))
            continue;
        (void)printf("%s**%s**\n\n| point | fault | deliveries | state |", any ? "\n" : "",
                     cli_modes[x.mode]);
        any = true;
        for (int e = 0; e < LAB_EFFECTS; e++)
            if (find(&x, e, -1, -1))
                (void)printf(" %s |", lab_effects[e]);
        (void)printf("\n|---|---|---|---|");
        for (int e = 0; e < LAB_EFFECTS; e++)
            if (find(&x, e, -1, -1))
                (void)printf("---|");
        (void)printf("\n");
        for (int f = 0; f < LAB_FAULTS; f++)
            for (int p = 0; p < EMQ__POINT_COUNT; p++)
                put_row(&x, f, p);
    }
}
