/* SPDX-License-Identifier: MIT
 *
 * The runner behind test.h: takes the tests of this program out of the linker section and hands
 * them to cmocka. It keeps the promise that a failing test prints the command that runs it alone,
 * with the seed it had.
 */
#include "lib/test.h"

#include "base/clock.h"
#include "base/str.h"

#include <errno.h>
#include <fnmatch.h>
#include <ftw.h>
#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>

/* A program without any test still links; it then fails in main(). */
extern const struct emq_test __start_emq_tests[] __attribute__((weak));
extern const struct emq_test __stop_emq_tests[] __attribute__((weak));

enum { EXIT_SKIPPED = 77 };

static const char *program;
static bool passed; /* the running test came to its end, or was skipped */
static char temp_dir[PATH_MAX];

uint64_t test_seed(void)
{
    static uint64_t seed;
    static bool known;

    if (!known) {
        const char *text = getenv("EMQ_TEST_SEED");
        if (text && *text)
            seed = strtoull(text, NULL, 0);
        else
            emq__random(&seed, sizeof seed);
        known = true;
    }
    return seed;
}

uint64_t test_random(uint64_t *state)
{
    uint64_t z = (*state += 0x9e3779b97f4a7c15u);

    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

const char *test_temp_dir(void)
{
    if (!temp_dir[0]) {
        const char *base = getenv("TMPDIR");
        char path[PATH_MAX];
        int n = snprintf(path, sizeof path, "%s/emq-test-XXXXXX", base && *base ? base : "/tmp");
        if (n < 0 || (size_t)n >= sizeof path || !mkdtemp(path))
            fail_msg("no temporary folder %s: %s", path, strerror(errno));
        memcpy(temp_dir, path, sizeof temp_dir);
    }
    return temp_dir;
}

static int remove_entry(const char *path, const struct stat *st, int kind, struct FTW *ftw)
{
    (void)st;
    (void)ftw;
    /* A test may have taken its own rights away. */
    if (kind == FTW_DNR)
        (void)chmod(path, 0700);
    return remove(path);
}

static void remove_temp_dir(void)
{
    const char *keep = getenv("EMQ_TEST_KEEP");

    if (!temp_dir[0])
        return;
    if (keep && *keep && strcmp(keep, "0") != 0)
        fprintf(stderr, "kept: %s\n", temp_dir);
    else if (nftw(temp_dir, remove_entry, 16, FTW_DEPTH | FTW_PHYS) != 0)
        fprintf(stderr, "%s could not be removed: %s\n", temp_dir, strerror(errno));
    temp_dir[0] = '\0';
}

static bool word_listed(const char *list, const char *word)
{
    size_t n = strlen(word);

    for (const char *p = list; (p = strstr(p, word)) != NULL; p += n)
        if ((p == list || p[-1] == ' ') && (p[n] == '\0' || p[n] == ' '))
            return true;
    return false;
}

bool test_engine_asked(const char *engine)
{
    const char *only = getenv("EMQ_TEST_ENGINE");

    if (!only || !*only)
        return true;
    for (const char *p = only; *p; p += strspn(p, " ")) {
        size_t n = strcspn(p, " ");
        if (n && strncmp(engine, p, n) == 0)
            return true;
        p += n;
    }
    return false;
}

void test_require(bool present, const char *what, const char *hint)
{
    const char *required = getenv("EMQ_TEST_REQUIRE");

    if (present)
        return;
    if (required && (word_listed(required, what) || word_listed(required, "all")))
        fail_msg("%s is missing: %s", what, hint);
    fprintf(stderr, "skipped, %s is missing: %s\n", what, hint);
    passed = true;
    skip();
}

static void print_text(const char *label, emq_str s)
{
    enum { SHOWN = 400 };
    char line[SHOWN * 4 + 1];
    size_t n = 0;

    for (size_t i = 0; i < s.len && i < SHOWN; i++) {
        unsigned char ch = (unsigned char)s.ptr[i];
        if (ch >= 0x20 && ch < 0x7f && ch != '\\')
            line[n++] = (char)ch;
        else
            n += (size_t)snprintf(line + n, sizeof line - n, "\\x%02x", ch);
    }
    line[n] = '\0';
    print_error("%s (%zu bytes) \"%s\"%s\n", label, s.len, line, s.len > SHOWN ? "..." : "");
}

void test_check_str(emq_str actual, emq_str expected, const char *file, int line)
{
    if (emq__str_eq(actual, expected))
        return;
    size_t at = 0;
    while (at < actual.len && at < expected.len && actual.ptr[at] == expected.ptr[at])
        at++;
    print_text("actual  ", actual);
    print_text("expected", expected);
    print_error("they differ at byte %zu\n", at);
    _fail(file, line);
}

void test_check_status(int actual, int expected, const char *what, const char *file, int line,
                       const emq_error *err)
{
    if (actual == expected)
        return;
    print_error("%s\n  is %s (%d), not %s (%d)\n", what, emq_status_name((emq_status)actual),
                actual, emq_status_name((emq_status)expected), expected);
    if (err && actual < 0)
        print_error("  %.*s: %.*s (native %d)\n", (int)sizeof err->where, err->where,
                    (int)sizeof err->text, err->text, (int)err->native);
    _fail(file, line);
}

static int test_begin(void **state)
{
    (void)state;
    passed = false;
    return 0;
}

static void test_adapter(void **state)
{
    const struct emq_test *t = *state;

    t->run();
    passed = true;
}

/* cmocka leaves a failed test by a long jump, and then comes here. */
static int test_end(void **state)
{
    const struct emq_test *t = *state;

    remove_temp_dir();
    if (!passed)
        fprintf(stderr, "to run it alone: EMQ_TEST_SEED=%llu EMQ_TEST_ONLY=%s %s\n",
                (unsigned long long)test_seed(), t->name, program);
    return 0;
}

/* cmocka hands the address of initial_state over as a pointer to non-const. */
static struct CMUnitTest unit_of(const struct emq_test *t)
{
    union {
        const void *in;
        void *out;
    } state = {.in = t};

    return (struct CMUnitTest){.name = t->name,
                               .test_func = test_adapter,
                               .setup_func = test_begin,
                               .teardown_func = test_end,
                               .initial_state = state.out};
}

int main(int argc, char **argv)
{
    const char *only = getenv("EMQ_TEST_ONLY");
    size_t count = 0, all = (size_t)(__stop_emq_tests - __start_emq_tests);

    program = argc > 0 ? argv[0] : "test";
    if (all == 0) {
        fprintf(stderr, "%s: no tests in this program\n", program);
        return EXIT_FAILURE;
    }
    struct CMUnitTest *units = calloc(all, sizeof *units);
    if (!units) {
        fprintf(stderr, "%s: out of memory\n", program);
        return EXIT_FAILURE;
    }
    for (const struct emq_test *t = __start_emq_tests; t < __stop_emq_tests; t++)
        if ((!only || !*only || fnmatch(only, t->name, 0) == 0) &&
            (!t->engine || test_engine_asked(t->engine)))
            units[count++] = unit_of(t);

    int failed = 0;
    if (count > 0)
        failed = _cmocka_run_group_tests(program, units, count, NULL, NULL);
    else
        fprintf(stderr, "%s: no test of %zu matches EMQ_TEST_ONLY or EMQ_TEST_ENGINE\n", program,
                all);
    free(units);
    if (count == 0)
        return EXIT_SKIPPED;
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
