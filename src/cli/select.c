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

static const char *why_not(emq_status s)
{
    switch ((int)s) {
    case EMQ_NOT_FOUND: return "no such job";
    case EMQ_LOCKED: return "it is being worked on: cancel it, or wait";
    case EMQ_WRONG_STATE: return "its state does not allow this";
    default: return emq_status_text(s);
    }
}

/* Each id has its answer, so a refusal is a result here. */
static int report(const struct cli *cli, const struct cli_act *act, emq_str id, emq_status s)
{
    struct emq__buf b;
    if (s == EMQ_OK)
        return cli_done(cli, "id", id, act->done);
    if (!cli->globals.json && s == EMQ_NOT_FOUND)
        return cli_error(cli, CLI_NO, "queue %s has no job %.*s", cli->args.words[0],
                         EMQ_STR_ARG(id));
    if (!cli->globals.json)
        return cli_error(cli, CLI_NO, "job %.*s: %s", EMQ_STR_ARG(id), why_not(s));
    cli_json_begin(&b);
    cli_json_str(&b, "id", id);
    cli_json_str(&b, "outcome", emq_cstr("refused"));
    cli_json_str(&b, "reason", emq_cstr(why_not(s)));
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
                            emq_error *err)
{
    emq_queue_stats stats = {.size = sizeof stats};
    emq_job *job = NULL;
    emq_status s = emq_get(cli->client, queue, id, &job, err);

    if (s == EMQ_OK && !allowed(act, emq_job_state(job)))
        s = EMQ_WRONG_STATE;
    if (s == EMQ_OK && act->spares_locked)
        s = emq_stats(cli->client, queue, &stats, err);
    if (s == EMQ_OK && spared(act, job, stats.now_ms))
        s = EMQ_LOCKED;
    emq_job_free(job);
    return s;
}

/* Of the active jobs those without a living lock, by the clock of the store after they were read. */
static emq_status count_unlocked(struct cli *cli, const struct cli_act *act, emq_str queue,
                                 int64_t *count, emq_error *err)
{
    emq_find_opts o = {.size = sizeof o, .state = EMQ_ACTIVE, .limit = 1000};
    emq_queue_stats stats = {.size = sizeof stats};
    emq_list *page = NULL, *last = NULL; /* o.after_id lies in the last one */
    emq_status s;

    while ((s = emq_find(cli->client, queue, &o, &page, err)) == EMQ_OK && emq_list_len(page) > 0 &&
           (s = emq_stats(cli->client, queue, &stats, err)) == EMQ_OK) {
        size_t n = emq_list_len(page);
        for (size_t i = 0; i < n; i++)
            *count += !spared(act, emq_list_job(page, i), stats.now_ms);
        o.after_id = emq_job_id(emq_list_job(page, n - 1));
        emq_list_free(last);
        last = page;
        page = NULL;
    }
    emq_list_free(page);
    emq_list_free(last);
    return s == EMQ_NOT_FOUND ? EMQ_OK : s;
}

static emq_status would_many(struct cli *cli, const struct cli_act *act, emq_str queue, int state,
                             int64_t *count, emq_error *err)
{
    emq_queue_stats stats = {.size = sizeof stats};

    if (act->spares_locked && state == EMQ_ACTIVE)
        return count_unlocked(cli, act, queue, count, err);
    emq_status s = emq_stats(cli->client, queue, &stats, err);
    *count = stats.count[state];
    return s;
}

/* ------------------------------------------------------------------------------------------ */

static int act_on_ids(struct cli *cli, const struct cli_act *act, emq_str queue, bool dry_run)
{
    int code = CLI_OK;
    int64_t done = 0;
    for (size_t i = 1; i < cli->args.n_words; i++) {
        emq_error err;
        emq_str id = emq_cstr(cli->args.words[i]);
        emq_status s =
            dry_run ? would_one(cli, act, queue, id, &err) : act->one(cli, queue, id, &err);
        if (emq__is_failure(s))
            return cli_failure(cli, s, &err);
        done += s == EMQ_OK;
        int reported = report(cli, act, id, s);
        code = reported ? reported : code;
    }
    if (!cli->globals.json)
        cli_say(cli, "%lld job%s %s%s", (long long)done, done == 1 ? "" : "s",
                dry_run ? "would be " : "", act->done);
    return code;
}

static int act_on_state(struct cli *cli, const struct cli_act *act, emq_str queue, int state,
                        bool dry_run, int64_t *total)
{
    emq_error err;
    int64_t count = 0;
    emq_status s = dry_run ? would_many(cli, act, queue, state, &count, &err)
                           : act->many(cli, queue, state, &count, &err);
    *total += count;
    return s == EMQ_OK ? CLI_OK : cli_failure(cli, s, &err);
}

int cli_act_on(struct cli *cli, const struct cli_act *act)
{
    const struct cli_selection *sel = cli->options;
    emq_str queue = emq_cstr(cli->args.words[0]);
    int state = sel->state;

    if ((cli->args.n_words > 1) + (state > 0) + sel->all != 1)
        return cli_usage(cli, "give ids, or --state S, or --all");
    if (cli->args.n_words > 1)
        return act_on_ids(cli, act, queue, sel->dry_run);
    if (state && !allowed(act, state))
        return cli_usage(cli, "--state: jobs that are %s can't be %s", emq_state_name(state),
                         act->done);

    int code = CLI_OK;
    int64_t total = 0;
    if (state)
        code = act_on_state(cli, act, queue, state, sel->dry_run, &total);
    for (const int *s = act->states; !state && *s && code == CLI_OK; s++)
        code = act_on_state(cli, act, queue, *s, sel->dry_run, &total);
    if (code != CLI_OK)
        return code;
    if (cli->globals.json)
        printf("{\"outcome\":\"%s\",\"count\":%lld%s}\n", act->done, (long long)total,
               sel->dry_run ? ",\"dryRun\":true" : "");
    else
        cli_say(cli, "%lld job%s %s%s", (long long)total, total == 1 ? "" : "s",
                sel->dry_run ? "would be " : "", act->done);
    return CLI_OK;
}
