/* SPDX-License-Identifier: MIT
 *
 * Tables for people, by libsmartcols.
 */
#include "cli/cli.h"

#include <libsmartcols.h>
#include <locale.h>

struct cli_table {
    struct libscols_table *t;
    size_t columns;
    bool failed;
};

struct cli_table *cli_table_new(const char *const *columns, const bool *right, size_t n)
{
    struct cli_table *table = calloc(1, sizeof *table);
    if (!table)
        return NULL;
    table->columns = n;
    table->t = scols_new_table();
    for (size_t i = 0; table->t && i < n; i++)
        if (!scols_table_new_column(table->t, columns[i], 0,
                                    right && right[i] ? SCOLS_FL_RIGHT : 0))
            table->failed = true;
    return table;
}

void cli_table_row(struct cli_table *table, const char *const *cells)
{
    struct libscols_line *line = table && table->t ? scols_table_new_line(table->t, NULL) : NULL;
    if (!line) {
        if (table)
            table->failed = true;
        return;
    }
    for (size_t i = 0; i < table->columns; i++)
        if (scols_line_set_data(line, i, cells[i]) != 0)
            table->failed = true;
}

int cli_table_print(struct cli_table *table)
{
    if (!table)
        return -1;
    /* Our texts are UTF-8 whatever the locale is; in that of C each of their bytes would be escaped. */
    locale_t utf8 = newlocale(LC_CTYPE_MASK, "C.UTF-8", (locale_t)0);
    locale_t before = utf8 ? uselocale(utf8) : (locale_t)0;
    bool failed = table->failed || !table->t || scols_print_table(table->t) != 0;
    if (utf8) {
        (void)uselocale(before);
        freelocale(utf8);
    }
    if (table->t)
        scols_unref_table(table->t);
    free(table);
    return failed ? -1 : 0;
}
