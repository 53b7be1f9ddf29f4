/* SPDX-License-Identifier: MIT
 *
 * The progress bar.
 */
#include "cli/cli.h"

#include "base/clock.h"

#include <unistd.h>

enum { BAR_WIDTH = 30, BAR_INTERVAL_MS = 100 };

void cli_bar_start(struct cli_bar *bar, const struct cli *cli, const char *label, int64_t total)
{
    *bar = (struct cli_bar){.cli = cli, .total = total, .label = label};
    bar->on = !cli->globals.quiet && isatty(STDERR_FILENO);
}

void cli_bar_step(struct cli_bar *bar, int64_t done)
{
    int64_t now = emq__mono_now().us / 1000;
    if (!bar->on || (now - bar->shown_at_ms < BAR_INTERVAL_MS && done != bar->total))
        return;
    bar->shown_at_ms = now;
    if (bar->total <= 0) {
        fprintf(stderr, "\r%s %lld", bar->label, (long long)done);
        return;
    }
    int full = (int)(BAR_WIDTH * done / bar->total);
    fprintf(stderr, "\r%s [%.*s%*s] %lld/%lld", bar->label, full, "##############################",
            BAR_WIDTH - full, "", (long long)done, (long long)bar->total);
}

void cli_bar_end(struct cli_bar *bar)
{
    if (bar->on && bar->shown_at_ms)
        fputc('\n', stderr);
}
