/* SPDX-License-Identifier: MIT
 *
 * The test runner's face: EMQ_TEST(sentence_as_name) { ... } registers itself through a linker
 * section; there is no list to keep. A failing test prints a command that runs it alone.
 *
 * Environment: EMQ_TEST_ONLY=glob runs the matching tests, EMQ_TEST_SEED=n sets the seed,
 * EMQ_TEST_KEEP=1 keeps temporary folders,
 * EMQ_TEST_ENGINE="word word" runs of the tests of engines only those whose engine starts so, EMQ_TEST_REQUIRE="word word" or "all" turns skips for
 * the lack of that into failures.
 */
#ifndef EMQ_TESTS_TEST_H
#define EMQ_TESTS_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/base.h"

struct emq_test {
    const char *name;
    void (*run)(void);
    const char *engine; /* NULL, or only when EMQ_TEST_ENGINE asks for it */
};

#define EMQ_TEST_ENTRY(test_name, function, engine)                                \
    __attribute__((used, section("emq_tests"),                                     \
                   aligned(8))) static const struct emq_test test_name##_entry = { \
        #test_name, function, engine};
#define EMQ_TEST_ON(engine, test_name)           \
    static void test_name(void);                 \
    EMQ_TEST_ENTRY(test_name, test_name, engine) \
    static void test_name(void)
#define EMQ_TEST(test_name) EMQ_TEST_ON(NULL, test_name)

#define CHECK(x)                    assert_true(x)
#define CHECK_INT(actual, expected) assert_int_equal((int64_t)(actual), (int64_t)(expected))
/* Prints both statuses by name, and the error's text. */
#define CHECK_STATUS(actual, expected) \
    test_check_status((int)(actual), (int)(expected), #actual, __FILE__, __LINE__, NULL)
#define CHECK_STATUS_ERR(actual, expected, err) \
    test_check_status((int)(actual), (int)(expected), #actual, __FILE__, __LINE__, err)
#define CHECK_STR(actual, text)        test_check_str((actual), emq_cstr(text), __FILE__, __LINE__)
#define CHECK_STR_EQ(actual, expected) test_check_str((actual), (expected), __FILE__, __LINE__)

void test_check_status(int actual, int expected, const char *what, const char *file, int line,
                       const emq_error *err);
void test_check_str(emq_str actual, emq_str expected, const char *file, int line);
uint64_t test_seed(void);              /* EMQ_TEST_SEED, else random; printed when a test fails */
uint64_t test_random(uint64_t *state); /* splitmix64 */
bool test_engine_asked(const char *engine);
const char *test_temp_dir(void); /* a fresh folder per test, removed at its end */
/* Skips the running test, loudly, when something outside is missing; fails it when EMQ_TEST_REQUIRE
 * names it. what is one word. */
void test_require(bool present, const char *what, const char *hint);

#endif
