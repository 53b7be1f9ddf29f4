/* SPDX-License-Identifier: MIT
 *
 * File systems whose locks can't protect a queue. What statfs() says goes through the linker's --wrap.
 */
#include "lib/test.h"

#include <linux/magic.h>
#include <sys/vfs.h>
#include <unistd.h>

static long pretend; /* a magic number; 0 = the truth */

/* Both names: which one is called depends on the size of off_t. */
#define PRETEND(name)                                       \
    int __real_##name(const char *path, struct statfs *fs); \
    int __wrap_##name(const char *path, struct statfs *fs); \
    int __wrap_##name(const char *path, struct statfs *fs)  \
    {                                                       \
        int rc = __real_##name(path, fs);                   \
        if (rc == 0 && pretend)                             \
            fs->f_type = (__typeof__(fs->f_type))pretend;   \
        return rc;                                          \
    }
PRETEND(statfs64)

static char path[600];

static emq_status open_on(long kind, emq_open_opts *o, emq_error *err)
{
    emq_client *c = NULL;

    (void)snprintf(path, sizeof path, "%s/q.db", test_temp_dir());
    pretend = kind;
    emq_status s = emq_open(&c, emq_cstr(path), o, err);
    pretend = 0;
    emq_close(c);
    return s;
}

EMQ_TEST(a_network_file_system_is_refused_by_name_and_reason)
{
    static const long kinds[] = {NFS_SUPER_MAGIC, SMB_SUPER_MAGIC, (long)0xff534d42,
                                 (long)0xfe534d42, (long)0x00c36400};

    for (size_t i = 0; i < EMQ_ARRAY_LEN(kinds); i++) {
        emq_error err = {0};
        CHECK_STATUS(open_on(kinds[i], NULL, &err), EMQ_E_REFUSED);
        CHECK(strstr(err.text, "q.db") && strstr(err.text, "network file system") &&
              strstr(err.text, "local disk"));
    }
    CHECK_STATUS(open_on(0, NULL, NULL), EMQ_OK);
}

static void count_warnings(void *user, int level, emq_str message)
{
    int *n = user;

    *n += level == EMQ_LOG_WARN && memmem(message.ptr, message.len, "may not work", 12) != NULL;
}

EMQ_TEST(a_file_system_of_a_doubtful_kind_is_opened_with_a_warning)
{
    int warnings = 0;
    emq_open_opts o = {.size = sizeof o, .log = count_warnings, .log_user = &warnings};

    CHECK_STATUS(open_on(FUSE_SUPER_MAGIC, &o, NULL), EMQ_OK);
    CHECK_INT(warnings, 1);
    CHECK_STATUS(open_on(0, &o, NULL), EMQ_OK);
    CHECK_INT(warnings, 1);
}
