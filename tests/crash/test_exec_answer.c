/* SPDX-License-Identifier: MIT
 *
 * The answers of a kept program that are no JSON values: text and bytes, and what is no such thing.
 */
#include "exec_fake.h"

#include "base/str.h"

EMQ_TEST(a_kept_program_answers_in_text_and_in_bytes)
{
    struct rig *r =
        rig_sh_stream("while IFS= read -r line; do case $line in "
                      "*bytes*) echo '{\"result\":\"AP8=\",\"resultEncoding\":\"base64\"}';; "
                      "*plain*) printf '%s\\n' '{\"result\":\"a\\nb\"}';; "
                      "*) printf '%s\\n' '{\"result\":\"a\\nb "
                      "\\u00e9\",\"resultEncoding\":\"text\"}';; esac; done");

    CHECK_INT(rig_run(r, EMQ_STR_LIT("text")), EMQ__EXEC_DONE);
    CHECK_STR(r->res.result, "a\nb \xc3\xa9");
    CHECK_INT(rig_run(r, EMQ_STR_LIT("bytes")), EMQ__EXEC_DONE);
    CHECK_STR_EQ(r->res.result, EMQ_STR_LIT("\0\xff"));
    CHECK_INT(rig_run(r, EMQ_STR_LIT("plain")), EMQ__EXEC_DONE);
    CHECK_STR(r->res.result, "\"a\\nb\"");
    rig_close(r);
}

EMQ_TEST(an_answer_in_an_unknown_or_broken_encoding_fails_the_attempt)
{
    static const char *const answers[] = {
        "{\"result\":\"x\",\"resultEncoding\":\"morse\"}",
        "{\"result\":\"!!\",\"resultEncoding\":\"base64\"}",
        "{\"result\":{\"a\":1},\"resultEncoding\":\"text\"}",
        "{\"result\":\"\\ud800\",\"resultEncoding\":\"text\"}",
    };

    for (size_t i = 0; i < EMQ_ARRAY_LEN(answers); i++) {
        char script[400];
        (void)snprintf(script, sizeof script,
                       "while IFS= read -r line; do printf '%%s\\n' '%s'; done", answers[i]);
        struct rig *r = rig_sh_stream(script);
        CHECK_INT(rig_run(r, EMQ_STR_LIT("x")), EMQ__EXEC_RETRY);
        CHECK(r->res.reason.len > 0);
        rig_close(r);
    }
}
