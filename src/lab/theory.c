/* SPDX-License-Identifier: MIT
 *
 * What theory says (docs/guarantees.md), as a few rules: whether the first owner still settles its job, what its
 * effect did before and may do later, and what a second owner then finds.
 */
#include "lab/lab.h"

const char *const lab_effects[] = {
    "plain",       "idempotent",   "transactional", "inbox",  "marker-redo", "marker-skip",
    "marker-park", "marker-probe", "key",           "marker", NULL};
const char *const lab_faults[] = {"kill",   "lost-request", "lost-ack", "lost-reply",
                                  "freeze", "child",        "server",   NULL};
const char *const lab_points[] = {"P0", "P1", "P2", "P3", "P4", "P5", NULL};
const char *const lab_verdicts[] = {"clean", "duplicate", "lost", NULL};

const char *lab_state(int state)
{
    return state ? emq_state_name(state) : "gone";
}

enum lab_verdict lab_judge(const struct lab_outcome *o)
{
    return o->effects == 0 ? LAB_LOST : o->effects == 1 ? LAB_CLEAN : LAB_DUPLICATE;
}

bool lab_same(const struct lab_outcome *a, const struct lab_outcome *b)
{
    return a->deliveries == b->deliveries && a->effects == b->effects && a->state == b->state;
}

/* ---- which cells there are --------------------------------------------------------------- */

/* The points at which a fault can strike, as bits. */
static unsigned points_of(enum lab_fault fault)
{
    enum {
        P0 = 1 << EMQ__P0,
        P1 = 1 << EMQ__P1,
        P2 = 1 << EMQ__P2,
        P3 = 1 << EMQ__P3,
        P4 = 1 << EMQ__P4,
        P5 = 1 << EMQ__P5
    };
    switch (fault) {
    case LAB_KILL: return P0 | P1 | P2 | P3 | P4 | P5;
    case LAB_LOST_REQUEST: return P0 | P3; /* of the take, of the settlement */
    case LAB_LOST_ACK: return P3;
    case LAB_LOST_REPLY: return P1 | P4;
    case LAB_FREEZE: return P1 | P2 | P3;
    case LAB_CHILD: return P2 | P3;
    case LAB_SERVER: return P2 | P3;
    case LAB_FAULTS: break;
    }
    return 0;
}

static const char *missing(const struct lab_cell *c)
{
    bool lost =
        c->fault == LAB_LOST_REQUEST || c->fault == LAB_LOST_ACK || c->fault == LAB_LOST_REPLY;

    if (c->fault < 0 || c->fault >= LAB_FAULTS || c->point < 0 || c->point >= EMQ__POINT_COUNT ||
        !(points_of((enum lab_fault)c->fault) & 1U << c->point))
        return "this fault does not strike at this point";
    if (c->fault == LAB_SERVER && !c->server)
        return "a file has no server";
    if (c->mode == EMQ_FIRE_AND_FORGET && c->point >= EMQ__P3 &&
        (lost || (c->fault == LAB_KILL && c->point > EMQ__P3)))
        return "fire-and-forget: there is no acknowledgement";
    if (c->mode == EMQ_FIRE_AND_FORGET && (c->effect == LAB_TRANSACTIONAL || lab_marked(c->effect)))
        return "fire-and-forget: the store has no job that this could belong to";
    if (c->mode == EMQ_AT_MOST_ONCE && lab_marked(c->effect) && c->effect != LAB_PARK)
        return "at-most-once: there is no second delivery that would ask for a policy";
    if (c->effect == LAB_TRANSACTIONAL && c->fault == LAB_FREEZE && c->point == EMQ__P3 &&
        !c->server)
        return "frozen inside of its transaction it keeps everybody out of the file";
    return NULL;
}

/* ---- what comes of it -------------------------------------------------------------------- */

/* What the first owner leaves behind. */
struct first {
    bool gone;     /* it does not end the job: dead, or its lock was lost */
    int64_t did;   /* effects before a second owner comes */
    int64_t later; /* effects that it makes when that one has ended */
    enum { UNMARKED, CLAIMED, RECORDED } marker;
    const char *why;
};

static struct first first_owner(const struct lab_cell *c)
{
    bool inside = c->effect == LAB_TRANSACTIONAL; /* the effect is there with the acknowledgement */

    switch (c->fault) {
    case LAB_LOST_REQUEST: return (struct first){.why = "nothing happened, and it is sent again"};
    case LAB_LOST_REPLY:
        return (struct first){.why = "it is asked again, and the receipt says what was done"};
    case LAB_SERVER:
        return (struct first){.why = "its data is on disk, and what got no answer is sent again"};
    case LAB_LOST_ACK:
        return (struct first){.gone = true,
                              .did = !inside,
                              .marker = RECORDED,
                              .why = inside ? "its effect was not committed"
                                            : "the effect is done, the store does not know"};
    default: break;
    }
    if (c->fault == LAB_FREEZE && c->mode == EMQ_FIRE_AND_FORGET)
        return (struct first){.why = "there is no lock that could be lost"};
    const bool late = c->fault == LAB_FREEZE;
    const char *const refused = "it wakes up late, and the store refuses it";
    switch (c->point) {
    case EMQ__P0: return (struct first){.why = "nothing has happened yet"};
    case EMQ__P1:
        return (struct first){.gone = true,
                              .why = late ? "past the end of its lock it does not begin"
                                          : "taken, and its handler not begun"};
    case EMQ__P2:
        return (struct first){.gone = true,
                              .later = late && !inside,
                              .marker = CLAIMED,
                              .why = late && inside          ? refused
                                     : late                  ? "it wakes up late and goes on"
                                     : c->fault == LAB_CHILD ? "the program dies with its worker"
                                                             : "begun, and its effect not done"};
    case EMQ__P3:
        return (struct first){.gone = true,
                              .did = !inside,
                              .marker = CLAIMED,
                              .why = late && inside ? refused
                                     : inside
                                         ? "its effect was not committed"
                                         : "the gap: the effect is done, the store does not know"};
    default: return (struct first){.why = "the store knows"};
    }
}

/* The effects of a second owner; *state and *why change where it decides. */
static int64_t second_owner(const struct lab_cell *c, const struct first *f, int *state,
                            const char **why)
{
    if (!lab_marked(c->effect) || f->marker == UNMARKED)
        return 1;
    if (f->marker == RECORDED) {
        *why = "its marker says that it is done";
        return 0;
    }
    switch (c->effect) {
    case LAB_SKIP: *why = "in doubt, and counted as done"; return 0;
    case LAB_PARK:
        *state = EMQ_FAILED_STATE;
        *why = "in doubt, and parked for somebody to look";
        return 0;
    case LAB_PROBE:
        *why = f->did     ? "in doubt, and the other side says that it happened"
               : f->later ? "in doubt, and the other side can't know what is still to come"
                          : "in doubt, and the other side says that it did not happen";
        return !f->did;
    default: *why = "in doubt, and done again"; return 1;
    }
}

bool lab_theory(const struct lab_cell *c, struct lab_outcome *out, const char **why)
{
    if ((*why = missing(c)))
        return false;
    struct first f = first_owner(c);
    *why = f.why;
    *out = (struct lab_outcome){
        .deliveries = 1,
        .effects = f.gone ? f.did + f.later : 1,
        .state = c->mode == EMQ_FIRE_AND_FORGET ? 0 : EMQ_COMPLETED_STATE,
    };
    if (f.gone && c->mode == EMQ_AT_MOST_ONCE)
        out->state = EMQ_FAILED_STATE;
    if (f.gone && c->mode == EMQ_AT_LEAST_ONCE) {
        out->deliveries = 2;
        out->effects += second_owner(c, &f, &out->state, why);
    }
    /* Done twice, but the same. */
    if ((c->effect == LAB_IDEMPOTENT || c->effect == LAB_INBOX || c->effect == LAB_KEY) &&
        out->effects > 1)
        out->effects = 1;
    return true;
}

size_t lab_cells(bool server, struct lab_cell out[LAB_CELLS_MAX])
{
    struct lab_cell c = {.server = server};
    struct lab_outcome o;
    const char *why;
    size_t n = 0;

    for (c.mode = 0; c.mode <= EMQ_FIRE_AND_FORGET; c.mode++)
        for (c.effect = 0; c.effect < LAB_EFFECTS; c.effect++)
            for (c.fault = 0; c.fault < LAB_FAULTS; c.fault++)
                for (c.point = 0; c.point < EMQ__POINT_COUNT; c.point++)
                    if (n < LAB_CELLS_MAX && lab_theory(&c, &o, &why))
                        out[n++] = c;
    return n;
}
