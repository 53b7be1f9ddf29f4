/* SPDX-License-Identifier: MIT
 *
 * Data and batches, from the command line, a file or standard input.
 */
#include "cli/cli.h"

#include <errno.h>
#include <sys/stat.h>

static int read_all(const struct cli *cli, FILE *f, const char *name, size_t max, char **out,
                    size_t *out_len)
{
    struct emq__buf b;
    char chunk[65536];
    size_t n;

    emq__buf_init(&b, max + 1);
    while ((n = fread(chunk, 1, sizeof chunk, f)) > 0 && b.failed == EMQ_OK && b.len <= max)
        emq__buf_add(&b, chunk, n);
    int code = CLI_OK;
    if (ferror(f))
        code = cli_error(cli, CLI_NOINPUT, "%s: %s", name, strerror(errno));
    else if (b.failed == EMQ_E_NOMEM)
        code = cli_error(cli, CLI_AGAIN, "%s: out of memory", name);
    else if (b.failed != EMQ_OK || b.len > max)
        code = cli_error(cli, CLI_DATA, "%s: more than the limit of %zu bytes", name, max);
    if (code != CLI_OK) {
        emq__buf_free(&b);
        return code;
    }
    *out = b.ptr ? b.ptr : strdup(""); /* NULL would be no data at all */
    *out_len = b.len;
    return *out ? CLI_OK : cli_error(cli, CLI_AGAIN, "%s: out of memory", name);
}

int cli_read_file(const struct cli *cli, const char *path, size_t max, char **out, size_t *out_len)
{
    struct stat st;
    if (strcmp(path, "-") == 0)
        return read_all(cli, stdin, "standard input", max, out, out_len);
    FILE *f = fopen(path, "rbe");
    if (!f)
        return cli_error(cli, CLI_NOINPUT, "%s: %s", path, strerror(errno));
    int code = fstat(fileno(f), &st) == 0 && S_ISDIR(st.st_mode)
                   ? cli_error(cli, CLI_NOINPUT, "%s: is a directory", path)
                   : read_all(cli, f, path, max, out, out_len);
    fclose(f);
    return code;
}

int cli_read_data(const struct cli *cli, const char *arg, size_t max, char **out, size_t *out_len)
{
    if (strcmp(arg, "-") == 0)
        return cli_read_file(cli, arg, max, out, out_len);
    if (arg[0] == '@' && arg[1] == '@')
        arg++;
    else if (arg[0] == '@')
        return arg[1]
                   ? cli_read_file(cli, arg + 1, max, out, out_len)
                   : cli_usage(
                         cli,
                         "\"@\" names no file: give @FILE, or @@ for text that begins with one @");
    *out_len = strlen(arg);
    *out = strdup(arg);
    return *out ? CLI_OK : cli_error(cli, CLI_AGAIN, "out of memory");
}
