/* SPDX-License-Identifier: MIT
 *
 * See select.h.
 */
#include "cli/select.h"

#include "base/error.h"
#include "base/json.h"
#include "base/str.h"

static bool allowed(const struct cli_act *act, int state)
{
    for (const int *s = act->states; *s; s++)
        if (*s == state)
            return true;
    return false;
}

enum { WHY_MAX = EMQ_ID_MAX + 160 };

/* The next run of a scheduler has the id "repeat:<scheduler>:<time>". */
static const char *why_next_run(emq_str id, char text[WHY_MAX])
{
    static const size_t head = sizeof "repeat:" - 1;
    size_t end = id.len;

    while (end > head && id.ptr[end - 1] != ':')
        end--;
    (void)snprintf(text, WHY_MAX,
                   "it is the next run of scheduler %.*s, which makes no more without it: remove "
                   "the scheduler, with BullMQ, to end it",
                   end > head ? (int)(end - 1 - head) : 0, id.ptr + (end > head ? head : 0));
    return text;
}

static const char *why_not(emq_status s, emq_str id, char text[WHY_MAX])
{
    switch ((int)s) {
    case EMQ_NOT_FOUND: return "no such job";
    case EMQ_LOCKED: return "it is being worked on: cancel it, or wait";
    case EMQ_CHILD_LOCKED: return "a child of it is being worked on: cancel the child, or wait";
    case EMQ_NEXT_RUN: return why_next_run(id, text);
    case EMQ_WRONG_STATE: return "its state does not allow this";
    case EMQ_EFFECT_DONE:
        return "its effect is recorded as done, or as done in part: --keep-effect, and the next "
               "run leaves it out; or "
               "--redo, and it happens again";
    default: return emq_status_text(s);
    }
}

struct stayed {
    int64_t n;
    struct emq__buf ids; /* text, or JSON strings */
};

/* What became of all of them. */
struct tally {
    int64_t done, asked;
    struct stayed locked, runs;
};

static bool only_asked(const struct cli_act *act, int state)
{
    return act->asked && state == EMQ_ACTIVE;
}

static void say_stayed(const struct cli *cli, const struct stayed *s, const char *one,
                       const char *more)
{
    if (s->n)
        cli_say(cli, "%lld %s%s%.*s", (long long)s->n, s->n == 1 ? one : more,
                cli->globals.verbose ? ": " : "", cli->globals.verbose ? (int)s->ids.len : 0,
                s->ids.len ? s->ids.ptr : "");
}

static void say_tally(const struct cli *cli, const struct cli_act *act, const struct tally *t,
                      bool dry_run)
{
    const char *would = dry_run ? "would be " : "";

    if (t->done || !t->asked)
        cli_say(cli, "%lld job%s %s%s", (long long)t->done, t->done == 1 ? "" : "s", would,
                act->done);
    if (t->asked)
        cli_say(cli, "%lld active job%s %s%s", (long long)t->asked, t->asked == 1 ? "" : "s", would,
                act->asked);
    say_stayed(cli, &t->locked, "active job stays, being worked on: cancel, or wait",
               "active jobs stay, being worked on: cancel, or wait");
    say_stayed(cli, &t->runs,
               "job stays, the next run of a scheduler: remove the scheduler, with BullMQ",
               "jobs stay, the next runs of schedulers: remove the schedulers, with BullMQ");
}

static int print_tally(const struct cli *cli, const struct cli_act *act, const struct tally *t,
                       bool dry_run)
{
    struct emq__buf b;

    cli_json_begin(&b);
    cli_json_str(&b, "outcome", emq_cstr(act->done));
    emq__json_i64_member(&b, "count", t->done);
    if (act->asked)
        emq__json_i64_member(&b, act->key, t->asked);
    if (act->spares_locked || t->runs.n) {
        emq__json_key(&b, "stayed");
        emq__buf_char(&b, '[');
        emq__buf_add(&b, t->locked.ids.ptr, t->locked.ids.len);
        if (t->locked.n && t->runs.n)
            emq__buf_char(&b, ',');
        emq__buf_add(&b, t->runs.ids.ptr, t->runs.ids.len);
        emq__buf_char(&b, ']');
    }
    if (dry_run)
        cli_json_bool(&b, "dryRun", true);
    return cli_json_end(cli, &b);
}

/* Each id has its answer, so a refusal is a result here. */
static int report(const struct cli *cli, const struct cli_act *act, emq_str id, emq_status s,
                  int state)
{
    char why[WHY_MAX];
    struct emq__buf b;

    if (s == EMQ_OK)
        return cli_done(cli, "id", id, only_asked(act, state) ? act->asked : act->done);
    if (!cli->globals.json && s == EMQ_NOT_FOUND)
        return cli_error(cli, CLI_NO, "queue %s has no job %.*s", cli->args.words[0],
                         EMQ_STR_ARG(id));
    if (!cli->globals.json)
        return cli_error(cli, CLI_NO, "job %.*s: %s", EMQ_STR_ARG(id), why_not(s, id, why));
    cli_json_begin(&b);
    cli_json_str(&b, "id", id);
    cli_json_str(&b, "outcome", emq_cstr("refused"));
    cli_json_str(&b, "reason", emq_cstr(why_not(s, id, why)));
    int code = cli_json_end(cli, &b);
    return code == CLI_OK ? CLI_NO : code;
}

/* ---- what would be done ------------------------------------------------------------------ */

static bool spared(const struct cli_act *act, const emq_job *job, int64_t now_ms)
{
    return act->spares_locked && emq_job_state(job) == EMQ_ACTIVE &&
           emq_job_lock_until_ms(job) > now_ms;
}

static emq_status would_one(struct cli *cli, const struct cli_act *act, emq_str queue, emq_str id,
                            int32_t *out_state, emq_error *err)
{
    emq_queue_stats stats = {.size = sizeof stats};
    emq_job *job = NULL;
    emq_status s = emq_get(cli->client, queue, id, &job, err);

    if (s == EMQ_OK && !allowed(act, emq_job_state(job)))
        s = EMQ_WRONG_STATE;
    if (s == EMQ_OK && act->may)
        s = act->may(cli, job, err);
    if (s == EMQ_OK && act->spares_next_runs && emq_job_is_next_run(job))
        s = EMQ_NEXT_RUN;
    if (s == EMQ_OK && act->spares_locked)
        s = emq_stats(cli->client, queue, &stats, err);
    if (s == EMQ_OK && spared(act, job, stats.now_ms))
        s = EMQ_LOCKED;
    *out_state = emq_job_state(job);
    emq_job_free(job);
    return s;
}

static void add_stayed(const struct cli *cli, struct stayed *t, emq_str id)
{
    if (t->n++)
        emq__buf_text(&t->ids, cli->globals.json ? "," : ", ");
    if (cli->globals.json)
        emq__json_quote(&t->ids, id);
    else
        emq__buf_add(&t->ids, id.ptr, id.len);
}

struct look {
    struct cli *cli;
    const struct cli_act *act;
    bool dry_run;
    struct tally *tally;
    int64_t *refused;
    emq_error *err;
};

/* Those that stay: next runs, and active jobs, of a dry run those with a living lock; and, of a dry run, how many do
 * not. */
static emq_status see_spared(const struct look *l, const emq_job *job, int64_t now_ms)
{
    struct tally *t = l->tally;
    int state = emq_job_state(job);

    if (emq_job_is_next_run(job))
        add_stayed(l->cli, &t->runs, emq_job_id(job));
    else if (l->dry_run && !spared(l->act, job, now_ms))
        ++*(only_asked(l->act, state) ? &t->asked : &t->done);
    else if (l->act->spares_locked && state == EMQ_ACTIVE)
        add_stayed(l->cli, &t->locked, emq_job_id(job));
    return EMQ_OK;
}

/* How many jobs it would be done to, asked one by one. */
static emq_status see_allowed(const struct look *l, const emq_job *job, int64_t now_ms)
{
    emq_status s = l->act->may(l->cli, job, l->err);

    (void)now_ms;
    l->tally->done += s == EMQ_OK;
    *l->refused += s != EMQ_OK;
    return emq__is_failure(s) ? s : EMQ_OK;
}

/* Each job of a state, page by page, with the clock of the store after a page was read. */
static emq_status look_at(const struct look *l, emq_str queue, int state,
                          emq_status (*see)(const struct look *l, const emq_job *job,
                                            int64_t now_ms))
{
    emq_client *c = l->cli->client;
    emq_find_opts o = {.size = sizeof o, .state = state, .limit = 1000};
    emq_queue_stats stats = {.size = sizeof stats};
    emq_list *page = NULL, *last = NULL; /* o.after_id lies in the last one */
    emq_status s;

    while ((s = emq_find(c, queue, &o, &page, l->err)) == EMQ_OK && emq_list_len(page) > 0 &&
           (s = emq_stats(c, queue, &stats, l->err)) == EMQ_OK) {
        size_t n = emq_list_len(page);
        for (size_t i = 0; i < n && s == EMQ_OK; i++)
            s = see(l, emq_list_job(page, i), stats.now_ms);
        if (s != EMQ_OK)
            break;
        o.offset += (int64_t)n - (o.after_id.len == 0);
        o.after_id = emq_job_id(emq_list_job(page, n - 1));
        emq_list_free(last);
        last = page;
        page = NULL;
    }
    emq_list_free(page);
    emq_list_free(last);
    return s == EMQ_NOT_FOUND ? EMQ_OK : s;
}

/* ------------------------------------------------------------------------------------------ */

static int act_on_ids(struct cli *cli, const struct cli_act *act, emq_str queue, bool dry_run)
{
    int code = CLI_OK;
    struct tally t = {0};
    for (size_t i = 1; i < cli->args.n_words; i++) {
        emq_error err;
        emq_str id = emq_cstr(cli->args.words[i]);
        int32_t state = 0;
        emq_status s = dry_run ? would_one(cli, act, queue, id, &state, &err)
                               : act->one(cli, queue, id, &state, &err);
        if (emq__is_failure(s)) {
            if (!dry_run && !cli->globals.json && t.done + t.asked > 0)
                say_tally(cli, act, &t, false); /* it stays done */
            return cli_failure(cli, s, &err);
        }
        t.asked += s == EMQ_OK && only_asked(act, state);
        t.done += s == EMQ_OK && !only_asked(act, state);
        int reported = report(cli, act, id, s, state);
        code = reported ? reported : code;
    }
    if (!cli->globals.json)
        say_tally(cli, act, &t, dry_run);
    return code;
}

static emq_status act_on_state(struct cli *cli, const struct cli_act *act, emq_str queue, int state,
                               bool dry_run, struct tally *t, emq_error *err)
{
    int64_t count = 0, refused = 0;
    const struct look l = {cli, act, dry_run, t, &refused, err};
    emq_queue_stats stats = {.size = sizeof stats};
    emq_status s = EMQ_OK;

    if (!dry_run) {
        s = act->many(cli, queue, state, &count, err);
    } else if (act->may) {
        s = look_at(&l, queue, state, see_allowed);
        if (s == EMQ_OK && refused > 0)
            act->stay(cli, state, refused);
    } else if (!act->spares_next_runs) {
        s = emq_stats(cli->client, queue, &stats, err);
        count = stats.count[state];
    }
    *(only_asked(act, state) ? &t->asked : &t->done) += count;
    return s == EMQ_OK && act->spares_next_runs ? look_at(&l, queue, state, see_spared) : s;
}

static int act_on_states(struct cli *cli, const struct cli_act *act, emq_str queue,
                         const struct cli_selection *sel)
{
    const int given[] = {sel->state, 0};
    struct tally t = {0};
    emq_error err;
    emq_status s = EMQ_OK;
    int code = CLI_OK;

    emq__buf_init(&t.locked.ids, SIZE_MAX / 2);
    emq__buf_init(&t.runs.ids, SIZE_MAX / 2);
    for (const int *state = sel->state ? given : act->states; *state && s == EMQ_OK; state++)
        s = act_on_state(cli, act, queue, *state, sel->dry_run, &t, &err);
    if (s != EMQ_OK) {
        if (!sel->dry_run && t.done + t.asked > 0)
            say_tally(cli, act, &t, false); /* it stays done */
        code = cli_failure(cli, s, &err);
    } else if (t.locked.ids.failed || t.runs.ids.failed)
        code = cli_error(cli, CLI_AGAIN, "out of memory");
    else if (cli->globals.json)
        code = print_tally(cli, act, &t, sel->dry_run);
    else
        say_tally(cli, act, &t, sel->dry_run);
    emq__buf_free(&t.locked.ids);
    emq__buf_free(&t.runs.ids);
    return code;
}

int cli_act_on(struct cli *cli, const struct cli_act *act)
{
    const struct cli_selection *sel = cli->options;
    emq_str queue = emq_cstr(cli->args.words[0]);

    if ((cli->args.n_words > 1) + (sel->state > 0) + sel->all != 1)
        return cli_usage(cli, "give ids, or --state S, or --all");
    if (cli->args.n_words > 1)
        return act_on_ids(cli, act, queue, sel->dry_run);
    if (sel->state && !allowed(act, sel->state))
        return cli_usage(cli, "--state: jobs that are %s can't be %s", emq_state_name(sel->state),
                         act->done);
    return act_on_states(cli, act, queue, sel);
}
