/* SPDX-License-Identifier: MIT
 *
 * emq lab slide: the path of a job as a line, with what a kill at each point comes to. On a terminal the arrow keys
 * choose the point, the mode and the strength; a row is run when it is looked at for the first time.
 */
#include "cli/lab.h"

#include <poll.h>
#include <termios.h>
#include <unistd.h>

static const char *const point_names[][2] = {{"before", "the take"},   {"taken", ""},
                                             {"before", "the effect"}, {"effect", "done"},
                                             {"ack", "stored"},        {"all", "done"}};
enum { WIDTH = 12, ROWS = (EMQ_FIRE_AND_FORGET + 1) * LAB_EFFECTS };

struct slide {
    struct cli *cli;
    struct lab_ground *g;
    struct row {
        struct lab_result cells[EMQ__POINT_COUNT];
        bool there[EMQ__POINT_COUNT];
        bool ran;
    } * rows; /* by mode and effect */
    int at, point;
    bool differs;
};

static bool row_exists(const struct slide *s, int row)
{
    const struct lab_options *o = s->cli->options;
    struct lab_cell c = {.mode = row / LAB_EFFECTS, .effect = row % LAB_EFFECTS, .point = EMQ__P0};
    struct lab_outcome out;
    const char *why;

    return lab_theory(&c, &out, &why) && (!o->has_mode || o->mode == c.mode) &&
           (!o->has_effect || o->effect == c.effect ||
            (o->effect == LAB_ANY_MARKER && lab_marked(c.effect)));
}

/* The next row there is, up or down; the same one when there is none. */
static int row_beside(const struct slide *s, int from, int step)
{
    for (int row = from + step; row >= 0 && row < ROWS; row += step)
        if (row_exists(s, row))
            return row;
    return from;
}

static void row_run(struct slide *s, int at)
{
    struct row *row = &s->rows[at];
    struct lab_result wanted[EMQ__POINT_COUNT] = {0};
    struct lab_outcome out;
    const char *why;
    size_t n = 0;

    if (row->ran)
        return;
    for (int p = 0; p < EMQ__POINT_COUNT; p++) {
        const struct lab_cell c = {.server = lab_on_server(s->g),
                                   .mode = at / LAB_EFFECTS,
                                   .effect = at % LAB_EFFECTS,
                                   .point = p,
                                   .fault = LAB_KILL};
        row->there[p] = lab_theory(&c, &out, &why);
        if (row->there[p])
            wanted[n++].cell = c;
    }
    lab_cells_run(s->g, wanted, n, EMQ__POINT_COUNT, NULL, NULL);
    for (size_t i = 0; i < n; i++) {
        row->cells[wanted[i].cell.point] = wanted[i];
        s->differs = s->differs || !lab_as_expected(&wanted[i]);
    }
    row->ran = true;
}

/* ---- drawing ----------------------------------------------------------------------------- */

static const char *verdict_of(const struct row *row, int p)
{
    if (!row->there[p])
        return "-";
    return cli_lab_verdict(&row->cells[p]);
}

/* One line of the picture: what stands under a point; nothing behind the last. */
static void put_under(int p, const char *text)
{
    if (p + 1 < EMQ__POINT_COUNT)
        (void)printf("%-*s", WIDTH, text);
    else
        (void)printf("%s\n", text);
}

static void draw(const struct slide *s, bool cursor)
{
    const struct row *row = &s->rows[s->at];

    (void)printf("%s, %s: the worker is killed\n\n", cli_modes[s->at / LAB_EFFECTS],
                 lab_effects[s->at % LAB_EFFECTS]);
    for (int p = 0; p < EMQ__POINT_COUNT; p++)
        (void)printf(cursor && p == s->point ? "\033[7m%s\033[0m%s" : "%s%s", lab_points[p],
                     p + 1 < EMQ__POINT_COUNT ? "----------" : "\n");
    for (int line = 0; line < 2; line++)
        for (int p = 0; p < EMQ__POINT_COUNT; p++)
            put_under(p, point_names[p][line]);
    for (int p = 0; p < EMQ__POINT_COUNT; p++)
        put_under(p, verdict_of(row, p));
}

static void explain(const struct row *row, int p)
{
    const struct lab_result *r = &row->cells[p];
    char text[LAB_TEXT_MAX];

    (void)printf("%s: ", lab_points[p]);
    if (!row->there[p])
        (void)printf("there is no acknowledgement\n");
    else if (r->how != LAB_RAN)
        (void)printf("not measured: %s\n", r->text);
    else
        (void)printf("%s: %s%s\n", cli_lab_outcome(&r->seen, text), r->why,
                     lab_as_expected(r) ? "" : "; THEORY SAYS SOMETHING ELSE");
}

/* ---- on a terminal ----------------------------------------------------------------------- */

enum key { KEY_NONE, KEY_LEFT, KEY_RIGHT, KEY_UP, KEY_DOWN, KEY_END };

static enum key read_key(const struct slide *s)
{
    struct pollfd in = {.fd = STDIN_FILENO, .events = POLLIN};
    char bytes[8] = "";

    if (atomic_load(&s->g->stop))
        return KEY_END;
    if (poll(&in, 1, 200) <= 0)
        return KEY_NONE;
    ssize_t n = read(STDIN_FILENO, bytes, sizeof bytes - 1);
    if (n <= 0 || bytes[0] == 'q' || bytes[0] == 4)
        return KEY_END;
    if (n < 3 || bytes[0] != 27)
        return KEY_NONE;
    switch (bytes[2]) {
    case 'A': return KEY_UP;
    case 'B': return KEY_DOWN;
    case 'C': return KEY_RIGHT;
    case 'D': return KEY_LEFT;
    default: return KEY_NONE;
    }
}

static void show(struct slide *s)
{
    (void)printf("\033[H\033[J");
    if (!s->rows[s->at].ran) {
        (void)printf("running %s, %s…\n", cli_modes[s->at / LAB_EFFECTS],
                     lab_effects[s->at % LAB_EFFECTS]);
        (void)fflush(stdout);
        row_run(s, s->at);
        (void)printf("\033[H\033[J");
    }
    draw(s, true);
    (void)printf("\n");
    explain(&s->rows[s->at], s->point);
    (void)printf("\nleft, right: the point; up, down: mode and strength; q: the end\n");
    (void)fflush(stdout);
}

static void browse(struct slide *s)
{
    struct termios before, raw;
    bool changed = tcgetattr(STDIN_FILENO, &before) == 0;

    raw = before;
    raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
    if (changed)
        (void)tcsetattr(STDIN_FILENO, TCSANOW, &raw);
    show(s);
    for (enum key k = KEY_NONE; k != KEY_END;) {
        k = read_key(s);
        if (k == KEY_LEFT && s->point > 0)
            s->point--;
        else if (k == KEY_RIGHT && s->point + 1 < EMQ__POINT_COUNT)
            s->point++;
        else if (k == KEY_UP || k == KEY_DOWN)
            s->at = row_beside(s, s->at, k == KEY_UP ? -1 : 1);
        if (k != KEY_NONE && k != KEY_END)
            show(s);
    }
    if (changed)
        (void)tcsetattr(STDIN_FILENO, TCSANOW, &before);
}

/* ---- the part ---------------------------------------------------------------------------- */

static void print_plain(struct slide *s)
{
    row_run(s, s->at);
    if (atomic_load(&s->g->stop))
        return;
    draw(s, false);
    (void)printf("\n");
    for (int p = 0; p < EMQ__POINT_COUNT; p++)
        explain(&s->rows[s->at], p);
}

static int print_json(struct slide *s)
{
    struct row *row = &s->rows[s->at];
    int code = CLI_OK;

    row_run(s, s->at);
    for (int p = 0; p < EMQ__POINT_COUNT && code == CLI_OK && !atomic_load(&s->g->stop); p++) {
        const struct lab_result *r = &row->cells[p];
        if (row->there[p])
            code = cli_lab_json(s->cli, s->g, &r->cell, lab_effects[r->cell.effect],
                                r->how == LAB_RAN ? &r->seen : NULL, cli_lab_verdict(r),
                                (int)lab_judge(&r->expected));
    }
    return code;
}

int cli_lab_slide(struct cli *cli, struct lab_ground *g)
{
    struct slide s = {.cli = cli, .g = g, .rows = calloc(ROWS, sizeof *s.rows)};
    int code = CLI_OK;

    if (!s.rows)
        return cli_error(cli, CLI_AGAIN, "out of memory");
    if (!row_exists(&s, 0))
        s.at = row_beside(&s, 0, 1);
    if (!row_exists(&s, s.at))
        code = cli_usage(cli, "there is no such row: this mode has not this strength");
    else if (cli->globals.json)
        code = print_json(&s);
    else if (isatty(STDIN_FILENO) && isatty(STDOUT_FILENO))
        browse(&s);
    else
        print_plain(&s);
    free(s.rows);
    return code == CLI_OK && s.differs ? CLI_NO : code;
}
