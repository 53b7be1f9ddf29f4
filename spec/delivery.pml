/* SPDX-License-Identifier: MIT
 *
 * How a job is delivered: two workers with their keepers, the sweep and the store, while processes
 * die or freeze and messages are lost, at every step. spec/README.md says what each part stands for;
 * spec/check compiles this file once for each mode and asks for its properties.
 *
 * MODE     AT_LEAST_ONCE, AT_MOST_ONCE, FIRE_AND_FORGET
 * EFFECT   PLAIN, TRANSACTION, MARKER, KEY
 * POLICY   of MARKER, in doubt: REDO, SKIP, PARK, PROBE
 * BROKEN   ACK_FIRST, NO_FENCE, BLIND_SWEEP, NO_SWEEP, NO_RECEIPT, LATE_BEGIN, MARKER_IS_DONE: must be found out
 * FAULTS   how many deaths, freezes, losses and failed attempts a run may have
 */
#define AT_LEAST_ONCE   1
#define AT_MOST_ONCE    2
#define FIRE_AND_FORGET 3

#define PLAIN       1
#define TRANSACTION 2
#define MARKER      3
#define KEY         4

#define REDO  1
#define SKIP  2
#define PARK  3
#define PROBE 4

#define ACK_FIRST      1
#define NO_FENCE       2
#define BLIND_SWEEP    3
#define NO_SWEEP       4
#define NO_RECEIPT     5
#define LATE_BEGIN     6
#define MARKER_IS_DONE 7

#ifndef MODE
#define MODE AT_LEAST_ONCE
#endif
#ifndef EFFECT
#define EFFECT PLAIN
#endif
#ifndef POLICY
#define POLICY REDO
#endif
#ifndef BROKEN
#define BROKEN 0
#endif
#ifndef FAULTS
#define FAULTS 3
#endif

#define WORKERS  2
#define HANDOUTS (FAULTS + 2) /* each but the first has a fault as its reason */

/* ---- the store: one job, its lock, its marker, a receipt for each session ---------------------- */

mtype = {WAITING, ACTIVE, COMPLETED, FAILED, REMOVED};
mtype = {NONE, OK, LOST, FRESH, DONE, IN_DOUBT, BUSY}; /* answers */
mtype = {CLAIMED};

mtype state = WAITING;
byte token;          /* of the hand-out that has it; 0 = none */
byte fence;          /* the last token */
byte holder;         /* whose hand-out it is */
bit live;            /* its lock has not ended */
mtype marker = NONE; /* NONE, CLAIMED, DONE */
byte marker_token;
mtype receipt[WORKERS] = NONE; /* the answer to the session's last request */

/* ---- the processes ----------------------------------------------------------------------------- */

byte held[WORKERS];  /* the token that a worker works under; 0 = none */
bit renews[WORKERS]; /* its keeper renews that lock */
bit busy[WORKERS];   /* it has a hand-out, or will learn of one when it asks again */
bit dead[WORKERS];
bit frozen[WORKERS];
#define AWAKE(w) (!dead[w] && !frozen[w])

byte faults = FAULTS;

/* ---- the world, and what is to be shown --------------------------------------------------------- */

byte effects;        /* how often it has happened */
byte last_effect;    /* by which hand-out */
byte handed;         /* hand-outs */
bit acted[HANDOUTS + 1]; /* this hand-out's settlement is in the store */
bit ended[HANDOUTS + 1]; /* its lock has ended: the worker's own clock says so, too */
bit gap[HANDOUTS + 1];   /* it died with the effect done and no settlement in the store */
bit lost[HANDOUTS + 1];  /* its lock ended and the job was recovered while it was at work */
bit any_gap, any_lost;
bit reported;        /* somebody was told that the effect has not, or may not have, happened */
bit stranded;        /* its worker died; until the next hand-out */
bit unexplained;     /* a second effect that neither of the two explains */
bit lied;            /* a worker was told what is not so */

#define FINISHED  (state == COMPLETED || state == FAILED || state == REMOVED)
#define IDLE      (!busy[0] && !busy[1])

ltl no_loss        { [] !(FINISHED && !reported && effects == 0 && IDLE) }
ltl one_delivery   { [] (handed <= 1) }
ltl one_effect     { [] (effects <= 1) }
ltl explained      { [] !unexplained }
ltl final          { [] (state == COMPLETED -> [] (state == COMPLETED)) }
ltl truth          { [] !lied }
ltl ends           { <> FINISHED }
ltl completes      { <> (state == COMPLETED) }
ltl redelivers     { [] (stranded -> <> !stranded) }
ltl shows_the_lost { [] (stranded -> <> (state == FAILED)) }
ltl no_gap         { [] !(effects > 1 && !any_lost) }
ltl no_late_owner  { [] !(effects > 1 && !any_gap) }

/* ---- acts: each is one step of the store -------------------------------------------------------- */

#if BROKEN == NO_FENCE
#define OWNS(t) (state == ACTIVE)
#else
#define OWNS(t) (state == ACTIVE && token == t)
#endif

inline leave(to) { state = to; token = 0; live = 0 }

inline act_take()
{
    if
    :: state == WAITING ->
        fence++;
        handed++;
        stranded = 0;
        assert(fence <= HANDOUTS);
        answer = OK;
        t = fence;
        busy[w] = 1;
        printf("the store hands the job to worker %d under token %d\n", w, t);
#if MODE == FIRE_AND_FORGET
        leave(REMOVED)
#else
        state = ACTIVE; token = fence; holder = w; live = 1
#endif
    :: else -> answer = NONE
    fi
}

/* Also of a lock that has ended, while nobody has recovered the job. */
inline act_extend()
{
    if
    :: OWNS(held[w]) -> live = 1; printf("the lock of hand-out %d is renewed\n", held[w])
    :: else -> renews[w] = 0 /* told that it is lost */
    fi
}

inline effect_happens()
{
    effects++;
    printf("the effect happens, by hand-out %d\n", t);
    if
    :: effects > 1 && !gap[last_effect] && !lost[last_effect] && !lost[t] -> unexplained = 1
    :: else
    fi;
    last_effect = t
}

inline act_settle(to)
{
    if
    :: OWNS(t) ->
#if EFFECT == TRANSACTION
        if
        :: to == COMPLETED -> effect_happens()
        :: else
        fi;
#endif
        leave(to);
        printf("the store settles hand-out %d: %e\n", t, to);
        acted[t] = 1;
        answer = OK
    :: else -> answer = LOST; printf("the store refuses hand-out %d\n", t)
    fi
}

inline act_claim(take_over)
{
    if
    :: !OWNS(t) -> answer = LOST
    :: OWNS(t) && marker == DONE -> answer = DONE
    :: OWNS(t) && (marker == NONE || (take_over && marker == CLAIMED)) ->
        marker = CLAIMED; marker_token = t; answer = FRESH
    :: OWNS(t) && marker == CLAIMED && !take_over ->
        answer = (marker_token == t -> BUSY : IN_DOUBT)
    fi
}

inline act_done()
{
    if
    :: OWNS(t) && marker == CLAIMED && marker_token == t -> marker = DONE; answer = OK
    :: else -> answer = LOST
    fi
}

/* The lock of `seen` had ended when the sweep looked: it is compared again where it is changed. */
inline act_sweep()
{
    if
#if BROKEN == BLIND_SWEEP
    :: true ->
#else
    :: state == ACTIVE && token == seen && !live ->
#endif
        if
        :: held[holder] == seen -> lost[seen] = 1; any_lost = 1
        :: else
        fi;
#if MODE == AT_MOST_ONCE
        leave(FAILED);
#else
        leave(WAITING);
#endif
        printf("the sweep recovers hand-out %d\n", seen)
#if BROKEN != BLIND_SWEEP
    :: else
#endif
    fi
}

/* ---- messages ----------------------------------------------------------------------------------- */

#if BROKEN == NO_RECEIPT
#define ONCE(act) act
#else
#define ONCE(act)                               \
    if                                          \
    :: receipt[w] != NONE -> answer = receipt[w] \
    :: else -> act; receipt[w] = answer         \
    fi
#endif

inline reply_is_lost() { faults--; answer = NONE; printf("the reply to worker %d is lost\n", w) }
inline request_is_lost() { faults--; printf("a request of worker %d is lost\n", w) }

/* A request, repeated under its sequence until the answer is read; `then` is done with the answer. */
#define ASK(act, then)                                                     \
    do                                                                     \
    :: atomic { AWAKE(w) -> ONCE(act); receipt[w] = NONE; then; break }    \
    :: atomic { AWAKE(w) && faults > 0 -> ONCE(act); reply_is_lost() }     \
    :: atomic { AWAKE(w) && faults > 0 -> request_is_lost() }              \
    od

#define STEP(act) atomic { AWAKE(w) -> act }

/* ---- a worker: P0 to P5 ------------------------------------------------------------------------- */

inline drop() { busy[w] = 0; held[w] = 0; renews[w] = 0; t = 0; answer = NONE }

/* With a lock past its end nothing is begun. */
inline begin()
{
    if
    :: answer == NONE || (ended[t] && BROKEN != LATE_BEGIN)
    :: else -> held[w] = t; renews[w] = (MODE != FIRE_AND_FORGET)
    fi;
    answer = NONE
}

inline attempt_fails()
{
    faults--;
    reported = reported || MODE != AT_LEAST_ONCE;
    printf("attempt %d fails\n", t)
}

inline settle(to)
{
    ASK(act_settle(to), if
                        :: (answer == OK) != acted[t] -> lied = 1
                        :: else
                        fi; answer = NONE) /* P3 until the act is done, then P4; P5 behind it */
}

inline effect_elsewhere()
{
#if EFFECT == KEY
    STEP(if
         :: effects == 0 -> effect_happens()
         :: else /* the other side knows the key */
         fi)
#else
    STEP(effect_happens())
#endif
}

inline effect_with_marker()
{
    ASK(act_claim(0), skip);
    if
    :: answer == FRESH -> effect_elsewhere(); ASK(act_done(), skip)
#if BROKEN == MARKER_IS_DONE
    :: answer == IN_DOUBT -> answer = OK
#else
    :: answer == IN_DOUBT ->
#if POLICY == PARK
        reported = 1;
        settle(FAILED)
#else
        asks = 0;
#if POLICY == PROBE
        STEP(asks = (effects == 0));
#elif POLICY == REDO
        asks = 1;
#endif
        ASK(act_claim(1), skip);
        if
        :: answer == FRESH && asks -> effect_elsewhere(); ASK(act_done(), skip)
        :: answer == FRESH && !asks -> ASK(act_done(), skip)
        :: else
        fi
#endif
#endif
    :: answer == DONE || answer == LOST
    fi
}

proctype worker(byte w)
{
    byte t;
    bit asks;
    mtype answer;

    do
    :: {
        atomic { state == WAITING && AWAKE(w) -> skip }; /* P0 */
        ASK(act_take(), begin());
        if
        :: held[w] == 0 -> goto rest
        :: else
        fi; /* P1 */
#if BROKEN == ACK_FIRST
        settle(COMPLETED);
#endif
        if
#if BROKEN != ACK_FIRST
        :: atomic { AWAKE(w) && faults > 0 -> attempt_fails() };
#if MODE == AT_LEAST_ONCE
            settle(WAITING)
#elif MODE == AT_MOST_ONCE
            settle(FAILED)
#endif
#endif
        :: AWAKE(w); /* P2 */
#if EFFECT == MARKER
            effect_with_marker();
            if
            :: answer == OK || answer == DONE -> settle(COMPLETED)
            :: else
            fi
#else
#if EFFECT != TRANSACTION
            effect_elsewhere(); /* P3 */
#endif
#if MODE != FIRE_AND_FORGET && BROKEN != ACK_FIRST
            settle(COMPLETED)
#endif
#endif
        fi;
rest:   STEP(drop())
    } unless {
        /* Another process takes its place, with a session of its own. */
        atomic { dead[w] -> drop(); asks = 0; receipt[w] = NONE; dead[w] = 0 }
    }
    od
}

/* The heartbeat, in a thread of its own. A renewal that finds the lock as it was changes nothing and is no
 * step; what is one: finding that it has ended, or that the job has another owner. */
proctype keeper(byte w)
{
    do
    :: atomic { renews[w] && AWAKE(w) && !(live && token == held[w]) -> act_extend() }
    od
}

/* Time: a lock lasts while its owner's keeper renews it, and ends some time after that. */
#define RENEWED (held[holder] == token && renews[holder] && AWAKE(holder))
inline lock_ends() { live = 0; ended[token] = 1; printf("the lock of hand-out %d ends\n", token) }

proctype clock()
{
    do
    :: atomic { live && !RENEWED -> lock_ends() }
    :: atomic {
        live && RENEWED && faults > 0 ->
        faults--;
        printf("the renewals of hand-out %d are lost\n", token);
        lock_ends()
    }
    od
}

proctype sweep()
{
    byte seen;

    do
    :: atomic { state == ACTIVE && !live -> seen = token };
        if
        :: atomic { act_sweep(); seen = 0 }
        :: atomic { faults > 0 -> faults--; seen = 0 } /* the request is lost, or the sweeper dies */
        fi
    od
}

inline kill(w)
{
    faults--;
    dead[w] = 1;
    printf("worker %d dies\n", w);
    frozen[w] = 0;
    if
    :: held[w] != 0 && last_effect == held[w] && !acted[held[w]] -> gap[held[w]] = 1; any_gap = 1
    :: else
    fi;
    if
    :: state == ACTIVE && holder == w -> stranded = 1
    :: else
    fi;
    busy[w] = 0;
    held[w] = 0;
    renews[w] = 0
}

inline freeze(w) { faults--; frozen[w] = 1; printf("worker %d freezes\n", w) }
inline thaw(w) { frozen[w] = 0; printf("worker %d goes on\n", w) }

proctype trouble()
{
    do
    :: atomic { faults > 0 && !dead[0] -> kill(0) }
    :: atomic { faults > 0 && !dead[1] -> kill(1) }
    :: atomic { faults > 0 && AWAKE(0) -> freeze(0) }
    :: atomic { faults > 0 && AWAKE(1) -> freeze(1) }
    :: atomic { frozen[0] -> thaw(0) }
    :: atomic { frozen[1] -> thaw(1) }
    :: faults > 0 -> faults = 0 /* nothing more goes wrong */
    od
}

init
{
    atomic {
        run worker(0); run worker(1);
        run keeper(0); run keeper(1);
        run clock(); run trouble();
#if BROKEN != NO_SWEEP
        run sweep()
#endif
    }
}
