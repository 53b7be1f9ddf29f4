/* SPDX-License-Identifier: MIT
 *
 * The map against a naive one: an array of keys.
 */
#include "lib/test.h"

#include "base/map.h"
#include "base/str.h"

EMQ_TEST(an_empty_map_has_nothing)
{
    struct emq__map m = {0};
    size_t pos = 0;

    CHECK(!emq__map_get(&m, EMQ_STR_LIT("a")));
    CHECK(!emq__map_take(&m, EMQ_STR_LIT("a")));
    CHECK(!emq__map_next(&m, &pos, NULL, NULL));
    emq__map_free(&m);
}

EMQ_TEST(keys_are_copied_bytes_and_the_empty_key_is_one)
{
    struct emq__map m = {0};
    char key[] = "k\0x";
    int a, b, c;

    CHECK(emq__map_put(&m, emq_strn(key, 3), &a));
    CHECK(emq__map_put(&m, emq_strn(key, 1), &b));
    CHECK(emq__map_put(&m, emq_strn(NULL, 0), &c));
    key[0] = 'z';
    CHECK(emq__map_get(&m, EMQ_STR_LIT("k\0x")) == &a);
    CHECK(emq__map_get(&m, EMQ_STR_LIT("k")) == &b);
    CHECK(emq__map_get(&m, EMQ_STR_LIT("")) == &c);
    CHECK(!emq__map_get(&m, EMQ_STR_LIT("z")));
    CHECK(emq__map_put(&m, EMQ_STR_LIT("k"), &c));
    CHECK(emq__map_get(&m, EMQ_STR_LIT("k")) == &c);
    CHECK_INT(m.len, 3);
    emq__map_free(&m);
    CHECK_INT(m.len, 0);
    CHECK(emq__map_put(&m, EMQ_STR_LIT("k"), &c));
    emq__map_free(&m);
}

enum { KEYS = 600 };

static void check_same(const struct emq__map *m, void *const naive[KEYS], char names[KEYS][8])
{
    size_t pos = 0, count = 0, expected = 0;
    emq_str key;
    void *value;
    bool seen[KEYS] = {false};

    for (size_t i = 0; i < KEYS; i++)
        expected += naive[i] != NULL;
    CHECK_INT(m->len, expected);
    while (emq__map_next(m, &pos, &key, &value)) {
        size_t i = (size_t)((char(*)[8])value - names);
        CHECK(i < KEYS);
        CHECK(!seen[i]);
        CHECK_STR(key, names[i]);
        CHECK(naive[i] == value);
        seen[i] = true;
        count++;
    }
    CHECK_INT(count, expected);
}

EMQ_TEST(a_map_does_what_a_naive_one_does)
{
    struct emq__map m = {0};
    static char names[KEYS][8];
    void *naive[KEYS] = {NULL};
    uint64_t r = test_seed();

    for (size_t i = 0; i < KEYS; i++)
        (void)snprintf(names[i], sizeof names[i], "%zu", i);
    for (int step = 0; step < 60000; step++) {
        /* The range of keys breathes, so that the map is filled and emptied. */
        size_t range = 1 + (size_t)step / 100 % KEYS;
        size_t i = (size_t)(test_random(&r) % range);
        emq_str key = emq_cstr(names[i]);
        switch (test_random(&r) % 4) {
        case 0:
            CHECK(emq__map_put(&m, key, names[i]));
            naive[i] = names[i];
            break;
        case 1:
            CHECK(emq__map_take(&m, key) == naive[i]);
            naive[i] = NULL;
            break;
        default: CHECK(emq__map_get(&m, key) == naive[i]); break;
        }
        if (step % 1000 == 0)
            check_same(&m, naive, names);
    }
    check_same(&m, naive, names);
    emq__map_free(&m);
}

EMQ_TEST(a_map_that_is_filled_and_emptied_does_not_grow)
{
    struct emq__map m = {0};
    int value;

    for (int i = 0; i < 100000; i++) {
        char name[24];
        int n = snprintf(name, sizeof name, "job:%d", i);
        emq_str key = emq_strn(name, (size_t)n);
        CHECK(emq__map_put(&m, key, &value));
        CHECK(emq__map_take(&m, key) == &value);
    }
    CHECK_INT(m.len, 0);
    CHECK(m.cap <= 16);
    emq__map_free(&m);
}

/* Bell slots are shared by processes of different versions: these numbers must never change. */
EMQ_TEST(the_hash_is_the_same_in_every_version)
{
    assert_true(emq__hash(EMQ_STR_LIT("")) == UINT64_C(0xefd01f60ba992926));
    assert_true(emq__hash(EMQ_STR_LIT("mail")) == UINT64_C(0x7919626b7372a0ca));
    assert_true(emq__hash(EMQ_STR_LIT("a\0b")) == UINT64_C(0xab78f5eca36d0e2b));
}

EMQ_TEST(the_hash_spreads_similar_names_over_all_slots)
{
    enum { SLOTS = 64, NAMES = 6400 };
    int count[SLOTS] = {0};

    for (int i = 0; i < NAMES; i++) {
        char name[24];
        int n = snprintf(name, sizeof name, "queue-%d", i);
        count[emq__hash(emq_strn(name, (size_t)n)) % SLOTS]++;
    }
    for (int i = 0; i < SLOTS; i++)
        CHECK(count[i] > 40 && count[i] < 180);
}
