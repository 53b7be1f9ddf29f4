/* SPDX-License-Identifier: MIT
 *
 * Runs a fuzz target over files, or over the files of folders: the corpus as an ordinary test, with
 * any compiler. Each input is in a block of exactly its size. A folder without files is a failure:
 * a corpus that went missing must not look like success.
 */
#include "fuzz.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>

static int complain(const char *path, const char *what)
{
    fprintf(stderr, "%s: %s\n", path, what);
    return -1;
}

/* Files read: 1, or -1. */
static int replay_file(const char *path, size_t size)
{
    FILE *f = fopen(path, "rb");
    uint8_t *data = malloc(size ? size : 1);
    int result = 1;

    if (!f || !data || fread(data, 1, size, f) != size) {
        result = complain(path, strerror(errno));
    } else {
        fprintf(stderr, "%s\n", path); /* the last one named is the one that crashed */
        (void)LLVMFuzzerTestOneInput(data, size);
    }
    free(data);
    if (f)
        (void)fclose(f);
    return result;
}

static int replay(const char *path)
{
    struct stat st;

    if (stat(path, &st) != 0)
        return complain(path, strerror(errno));
    if (!S_ISDIR(st.st_mode))
        return replay_file(path, (size_t)st.st_size);

    DIR *dir = opendir(path);
    int files = 0;
    if (!dir)
        return complain(path, strerror(errno));
    for (const struct dirent *e; files >= 0 && (e = readdir(dir)) != NULL;) {
        char inside[PATH_MAX];
        if (e->d_name[0] == '.')
            continue;
        int n = snprintf(inside, sizeof inside, "%s/%s", path, e->d_name);
        int got = n < 0 || (size_t)n >= sizeof inside ? complain(path, "too long") : replay(inside);
        files = got < 0 ? -1 : files + got;
    }
    (void)closedir(dir);
    return files;
}

int main(int argc, char **argv)
{
    int files = 0;

    (void)LLVMFuzzerTestOneInput((const uint8_t *)"", 0);
    for (int i = 1; i < argc; i++) {
        int got = replay(argv[i]);
        if (got <= 0) {
            fprintf(stderr, "%s: nothing replayed\n", argv[i]);
            return EXIT_FAILURE;
        }
        files += got;
    }
    fprintf(stderr, "%d inputs replayed\n", files);
    return files > 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
