/* SPDX-License-Identifier: MIT
 *
 * Rounds and rows. The one invariant: a ratio is the median of the rounds' ratios, each taken from
 * two laps that ran one right after the other, and 1.00 is always the reference, more is better.
 */
#include "bench.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return x < y ? -1 : x > y;
}

double median(const double *v, int n)
{
    double sorted[ROUNDS_MAX];

    if (n == 0)
        return 0;
    memcpy(sorted, v, (size_t)n * sizeof *v);
    qsort(sorted, (size_t)n, sizeof *sorted, compare);
    return n % 2 ? sorted[n / 2] : (sorted[n / 2 - 1] + sorted[n / 2]) / 2;
}

static double ratio(const double *ours, const double *bare, int n, bool lower_is_better)
{
    double v[ROUNDS_MAX];

    for (int i = 0; i < n; i++) {
        double top = lower_is_better ? bare[i] : ours[i],
               bottom = lower_is_better ? ours[i] : bare[i];
        v[i] = bottom > 0 ? top / bottom : 0;
    }
    return median(v, n);
}

void row_init(struct row *r, const char *cell, const char *unit, const char *fmt, ...)
{
    va_list ap;

    *r = (struct row){.cell = cell, .unit = unit};
    va_start(ap, fmt);
    (void)vsnprintf(r->what, sizeof r->what, fmt, ap);
    va_end(ap);
}

bool row_wanted(const struct options *o, const struct row *r)
{
    return !o->match || strstr(r->what, o->match);
}

static double rate(const struct result *x)
{
    return x->wall_us > 0 ? (double)x->jobs * 1e6 / x->wall_us : 0;
}

static double a_job(const struct result *x, double us)
{
    return x->jobs > 0 ? us / (double)x->jobs : 0;
}

void row_rates(struct row *r, const struct result *ours, const struct result *bare)
{
    r->our_cpu[r->n] = a_job(ours, ours->cpu_us);
    r->bare_cpu[r->n] = a_job(bare, bare->cpu_us);
    r->our_server[r->n] = a_job(ours, ours->server_us);
    r->bare_server[r->n] = a_job(bare, bare->server_us);
    row_value(r, rate(ours), rate(bare));
}

void row_value(struct row *r, double ours, double bare)
{
    r->ours[r->n] = ours;
    r->bare[r->n] = bare;
    r->n++;
}

void report_head(const struct options *o)
{
    if (o->json)
        return;
    (void)printf("%-8s %-34s %-7s %10s %10s %6s   %8s %8s %6s\n", "cell", "case", "unit", "emq",
                 "bare", "ratio", "cpu us", "bare", "ratio");
}

static int digits(double v)
{
    return v < 10 ? 3 : v < 100 ? 1 : 0;
}

void row_print(const struct options *o, struct row *r)
{
    double ours = median(r->ours, r->n), bare = median(r->bare, r->n);
    double our_cpu = median(r->our_cpu, r->n), bare_cpu = median(r->bare_cpu, r->n);
    double by_cpu = ratio(r->our_cpu, r->bare_cpu, r->n, true);
    double our_server = median(r->our_server, r->n), bare_server = median(r->bare_server, r->n);
    double by_server = ratio(r->our_server, r->bare_server, r->n, true);
    double by_value = ratio(r->ours, r->bare, r->n, r->lower_is_better);

    if (o->json) {
        (void)printf("{\"cell\":\"%s\",\"case\":\"%s\",\"unit\":\"%s\",\"emq\":%.3f,\"bare\":%.3f,"
                     "\"ratio\":%.3f,\"emq_cpu_us\":%.3f,\"bare_cpu_us\":%.3f,\"cpu_ratio\":%.3f,"
                     "\"emq_server_us\":%.3f,\"bare_server_us\":%.3f,\"server_ratio\":%.3f,"
                     "\"rounds\":%d,\"note\":\"%s\"}\n",
                     r->cell, r->what, r->unit, ours, bare, by_value, our_cpu, bare_cpu, by_cpu,
                     our_server, bare_server, by_server, r->n, r->note);
    } else {
        (void)printf("%-8s %-34s %-7s %10.*f %10.*f %6.2f", r->cell, r->what, r->unit, digits(ours),
                     ours, digits(bare), bare, by_value);
        if (our_cpu > 0)
            (void)printf("   %8.2f %8.2f %6.2f", our_cpu, bare_cpu, by_cpu);
        if (our_server > 0)
            (void)printf("   server %.2f %.2f %.2f", our_server, bare_server, by_server);
        (void)printf("%s%s\n", r->note[0] ? "   " : "", r->note);
    }
    (void)fflush(stdout);
}

/* ---- contests -------------------------------------------------------------------------------- */

struct result contest_lap(const struct options *o, struct contest *c, bool ours)
{
    struct plan p = c->plan;
    struct result r;

    if (p.server)
        p.server->empty();
    else
        path_fresh(o, p.path);
    if (c->fill && (ours || !p.server)) {
        struct plan f = c->fill_plan;
        f.server = p.server;
        (void)snprintf(f.path, sizeof f.path, "%s", p.path);
        lap_prepare(c->fill, &f);
    }
    if (!ours && c->match_batch)
        p.batch = c->our_batch < 1 ? 1 : (int)(c->our_batch + 0.5);
    r = lap_run(ours ? c->ours : c->bare, &p);
    if (ours && r.batch > 0)
        c->our_batch = r.batch;
    if (!p.server)
        path_remove(p.path);
    return r;
}

void contest_run(const struct options *o, struct contest *c, struct row *r)
{
    for (int i = 0; i < o->rounds; i++) {
        bool first = i % 2 == 0; /* ours: the reference needs its batch */
        struct result a = contest_lap(o, c, first);
        struct result b = contest_lap(o, c, !first);
        row_rates(r, first ? &a : &b, first ? &b : &a);
    }
}
