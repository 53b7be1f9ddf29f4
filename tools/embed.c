/* SPDX-License-Identifier: MIT
 *
 * Host tool: turns statement and script files into C tables, so that they live in real files.
 * usage: embed PREFIX OUT.h OUT.c FILE...     embed --expand FILE.lua
 *
 * A .sql file holds any number of entries, each behind a line `-- name: some_name`; whole-line
 * comments are dropped. Any other file is one entry, kept byte for byte and named like the file; in
 * a .lua file a line `--@include lib/x.lua` stands for the text of that file, named from the folder
 * of the entry. A file that is included twice stands there once. --expand prints that text.
 * For the prefix sq_sql the output is `enum sq_sql { SQ_SQL_<name>..., SQ_SQL_COUNT }`,
 * sq_sql_text[] and sq_sql_name[], in the order of the command line. An input that could not be
 * meant as it is stops the build with file:line.
 */
#include <ctype.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ENTRIES_MAX = 1000, NAME_MAX_LEN = 63, LINE_MAX_LEN = 8192 };
enum { INCLUDES_MAX = 100, PATH_MAX_LEN = 1023 };

static char names[ENTRIES_MAX][NAME_MAX_LEN + 1];
static int n_entries;

static _Noreturn void die(const char *file, int line, const char *fmt, ...)
{
    va_list ap;
    fprintf(stderr, "%s:%d: error: ", file, line);
    va_start(ap, fmt);
    vfprintf(stderr, fmt, ap);
    va_end(ap);
    fputc('\n', stderr);
    exit(1);
}

static const char *base_name(const char *path)
{
    return strrchr(path, '/') ? strrchr(path, '/') + 1 : path;
}

static void entry_begin(FILE *out, const char *file, int line, const char *name, size_t len)
{
    if (len == 0 || len > NAME_MAX_LEN ||
        strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_") < len)
        die(file, line, "name '%.*s' is not 1..%d of a-z 0-9 _", (int)len, name, NAME_MAX_LEN);
    if (n_entries == ENTRIES_MAX)
        die(file, line, "more than %d entries", ENTRIES_MAX);
    memcpy(names[n_entries], name, len);
    for (int i = 0; i < n_entries; i++)
        if (!strcmp(names[i], names[n_entries]))
            die(file, line, "name '%s' is taken", names[i]);
    fprintf(out, "static const char text_%d[] = /* %s */", n_entries, names[n_entries]);
    n_entries++;
}

static void entry_end(FILE *out, const char *file, int line, bool empty)
{
    if (empty)
        die(file, line, "entry '%s' is empty", names[n_entries - 1]);
    fputs(";\n", out);
}

static void put_line(FILE *out, const char *text)
{
    fputs("\n    \"", out);
    for (const unsigned char *p = (const unsigned char *)text; *p; p++)
        if (*p == '\n')
            fputs("\\n", out);
        else if (*p < 0x20 || *p > 0x7e || strchr("\"\\?", *p)) /* '?': no trigraphs */
            fprintf(out, "\\%03o", *p);
        else
            fputc(*p, out);
    fputc('"', out);
}

static FILE *open_file(const char *file)
{
    FILE *in = fopen(file, "rb");

    if (!in)
        die(file, 0, "can't be opened");
    return in;
}

/* The next line of a file, or false at its end. */
static bool next_line(FILE *in, const char *file, int line, char text[LINE_MAX_LEN + 2])
{
    if (!fgets(text, LINE_MAX_LEN + 2, in))
        return false;
    if (strlen(text) > LINE_MAX_LEN || (!strchr(text, '\n') && !feof(in)))
        die(file, line, "line is longer than %d bytes or holds a NUL", LINE_MAX_LEN);
    return true;
}

static bool has_ending(const char *file, const char *ending)
{
    size_t len = strlen(file), n = strlen(ending);

    return len > n && !strcmp(file + len - n, ending);
}

/* ---- scripts --------------------------------------------------------------------------------- */

struct script {
    FILE *out;
    void (*put)(FILE *out, const char *text);
    const char *folder; /* of the entry, folder_len bytes with the '/' */
    int folder_len;
    char included[INCLUDES_MAX][PATH_MAX_LEN + 1];
    int n_included;
    bool empty;
};

static void read_script(struct script *s, const char *file);

/* text: behind the mark of the directive. */
static void include(struct script *s, const char *file, int line, const char *text)
{
    char path[PATH_MAX_LEN + 1];
    const char *name = text + strspn(text, " \t");
    int len = (int)strcspn(name, " \t\r\n");
    int n = snprintf(path, sizeof path, "%.*s%.*s", s->folder_len, s->folder, len, name);

    if (len == 0 || name[len + (int)strspn(name + len, " \t\r\n")] || n > PATH_MAX_LEN)
        die(file, line, "an include names one file, as in `--@include lib/x.lua`");
    for (int i = 0; i < s->n_included; i++)
        if (!strcmp(s->included[i], path))
            return;
    if (s->n_included == INCLUDES_MAX)
        die(file, line, "more than %d includes", INCLUDES_MAX);
    memcpy(s->included[s->n_included++], path, (size_t)n + 1);
    FILE *in = fopen(path, "rb");
    if (!in)
        die(file, line, "'%s' can't be opened", path);
    fclose(in);
    read_script(s, path);
}

static void read_script(struct script *s, const char *file)
{
    static const char mark[] = "--@include";
    char text[LINE_MAX_LEN + 2];
    FILE *in = open_file(file);
    bool ended = true; /* the last line */

    for (int line = 1; next_line(in, file, line, text); line++) {
        if (!strncmp(text, mark, sizeof mark - 1)) {
            include(s, file, line, text + sizeof mark - 1);
            continue;
        }
        s->put(s->out, text);
        s->empty = false;
        ended = strchr(text, '\n') != NULL;
    }
    if (ferror(in) || fclose(in))
        die(file, 0, "can't be read");
    if (!ended && s->n_included > 0)
        s->put(s->out, "\n");
}

/* false: it is empty. */
static bool read_lua(FILE *out, const char *file, void (*put)(FILE *out, const char *text))
{
    static struct script s;

    s = (struct script){.out = out,
                        .put = put,
                        .folder = file,
                        .folder_len = (int)(base_name(file) - file),
                        .empty = true};
    read_script(&s, file);
    return !s.empty;
}

static void put_plain(FILE *out, const char *text)
{
    fputs(text, out);
}

/* ---- entries --------------------------------------------------------------------------------- */

static void read_file(FILE *out, const char *file)
{
    static const char mark[] = "-- name:";
    char text[LINE_MAX_LEN + 2];
    int start = 0; /* line of the open entry's name; 0 = none is open */
    bool sql = has_ending(file, ".sql"), empty = true;
    FILE *in = open_file(file);
    if (!sql)
        entry_begin(out, file, start = 1, base_name(file), strcspn(base_name(file), "."));
    if (has_ending(file, ".lua")) {
        fclose(in);
        empty = !read_lua(out, file, put_line);
        entry_end(out, file, 1, empty);
        return;
    }
    for (int line = 1; next_line(in, file, line, text); line++) {
        const char *p = text + strspn(text, " \t\r\n");
        if (sql && !strncmp(text, mark, sizeof mark - 1)) {
            if (start)
                entry_end(out, file, start, empty);
            p = text + sizeof mark - 1;
            p += strspn(p, " \t");
            size_t n = strcspn(p, "\r\n");
            while (n && isspace((unsigned char)p[n - 1]))
                n--;
            entry_begin(out, file, start = line, p, n);
            empty = true;
        } else if (!sql || (*p && strncmp(p, "--", 2))) {
            if (!start)
                die(file, line, "text in front of the first '%s' line", mark);
            empty = empty && !*p;
            put_line(out, text);
        }
    }
    if (ferror(in) || fclose(in))
        die(file, 0, "can't be read");
    if (!start)
        die(file, 1, "no '%s' line", mark);
    entry_end(out, file, start, empty);
}

int main(int argc, char **argv)
{
    char up[64] = {0};
    if (argc == 3 && !strcmp(argv[1], "--expand")) {
        return read_lua(stdout, argv[2], put_plain) && !fflush(stdout) ? 0 : 1;
    }
    if (argc < 5 || strlen(argv[1]) >= sizeof up)
        die("embed", 0, "usage: embed PREFIX OUT.h OUT.c FILE... | embed --expand FILE.lua");
    const char *prefix = argv[1], *base = base_name(argv[2]);
    for (size_t i = 0; prefix[i]; i++)
        up[i] = (char)toupper((unsigned char)prefix[i]);
    FILE *c = fopen(argv[3], "wb"), *h = fopen(argv[2], "wb");
    if (!c || !h)
        die(c ? argv[2] : argv[3], 0, "can't be written");

    fprintf(c,
            "/* Generated by tools/embed.c. */\n#include \"%s\"\n\n"
            "#pragma GCC diagnostic ignored \"-Woverlength-strings\"\n\n",
            base);
    for (int i = 4; i < argc; i++)
        read_file(c, argv[i]);
    fprintf(h, "/* Generated by tools/embed.c. */\n#ifndef %s_H\n#define %s_H\n\nenum %s {\n", up,
            up, prefix);
    fprintf(c, "\nconst char *const %s_text[%s_COUNT] = {\n", prefix, up);
    for (int i = 0; i < n_entries; i++) {
        fprintf(h, "    %s_%s,\n", up, names[i]);
        fprintf(c, "    text_%d,\n", i);
    }
    fprintf(h,
            "    %s_COUNT\n};\n\nextern const char *const %s_text[%s_COUNT];\n"
            "extern const char *const %s_name[%s_COUNT];\n\n#endif\n",
            up, prefix, up, prefix, up);
    fprintf(c, "};\n\nconst char *const %s_name[%s_COUNT] = {\n", prefix, up);
    for (int i = 0; i < n_entries; i++)
        fprintf(c, "    \"%s\",\n", names[i]);
    fputs("};\n", c);
    if (ferror(c) || ferror(h) || fclose(c) || fclose(h))
        die(argv[3], 0, "can't be written");
    return 0;
}
