/* SPDX-License-Identifier: MIT
 *
 * The side file when it is damaged: it holds no truth, so it is made good, or is gone without.
 */
#include "ground.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

static void overwrite(const char *file, const char *text, off_t size)
{
    int fd = open(file, O_WRONLY | O_CLOEXEC);

    CHECK(fd >= 0);
    CHECK(write(fd, text, strlen(text)) == (ssize_t)strlen(text));
    if (size >= 0)
        CHECK_INT(ftruncate(fd, size), 0);
    CHECK_INT(close(fd), 0);
}

static void ring(struct sq *s)
{
    struct emq__wake_req req = {.prefix = EMQ_STR_LIT("emq"), .queue = EMQ_STR_LIT("q")};
    struct emq__wake_res res;

    CHECK_STATUS(s->base.ops->wake(&s->base, &req, &res, NULL, NULL), EMQ_OK);
}

static uint64_t ticket(struct sq *s)
{
    emq_str q = EMQ_STR_LIT("q");

    return s->base.ops->ticket(&s->base, EMQ_STR_LIT("emq"), &q, 1);
}

EMQ_TEST(damaged_side_file_that_nobody_uses_is_made_good)
{
    static const off_t sizes[] = {-1, 0, 7, 5000, 1000000};
    const char *path = ground_path("q.db"), *side = ground_path("q.db-emq");

    ground_close(ground_open(path, NULL, 0));
    for (size_t i = 0; i < EMQ_ARRAY_LEN(sizes); i++) {
        overwrite(side, "a line that was printed here\n", sizes[i]);
        struct sq *a = ground_open(path, NULL, 0), *b = ground_open(path, NULL, 0);
        CHECK(!a->bell.poll && !b->bell.poll);
        uint64_t before = ticket(b);
        ring(a);
        CHECK(ticket(b) != before);
        ground_close(a);
        ground_close(b);
    }
}

static void keep_message(void *user, int level, emq_str message)
{
    if (level <= EMQ_LOG_WARN)
        (void)snprintf(user, 1000, "%.*s", EMQ_STR_ARG(message));
}

EMQ_TEST(damaged_side_file_that_others_use_is_left_and_named)
{
    const char *path = ground_path("q.db"), *side = ground_path("q.db-emq");
    char message[1000] = "";
    struct emq__log log = {.fn = keep_message, .user = message};
    struct sq *user = ground_open(path, NULL, 0), *late, *again;
    emq_error err = {0};

    overwrite(side, "damaged!", -1);
    uint64_t before = ticket(user);
    CHECK_STATUS_ERR(ground_open_only(path, NULL, 0, &log, &late, &err), EMQ_OK, &err);
    CHECK(late->bell.poll);
    CHECK(strstr(message, "q.db-emq") != NULL);
    CHECK(strstr(message, "delete it") != NULL);
    CHECK_INT(ticket(user), before); /* its words were not touched */
    CHECK_STATUS(ground_put(late, 1, NULL), EMQ_OK);
    CHECK(ground_has(user, 1));
    ground_close(user);
    again = ground_open(path, NULL, 0);
    CHECK(!again->bell.poll); /* nobody has it mapped any more */
    ground_close(again);
    ground_close(late);
}
