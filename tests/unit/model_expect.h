/* SPDX-License-Identifier: MIT
 *
 * What the tests of the model floor share: a refusal must name the value and what is allowed.
 */
#ifndef EMQ_TESTS_MODEL_EXPECT_H
#define EMQ_TESTS_MODEL_EXPECT_H

#include "lib/test.h"

/* Fails the test unless s is E_INVALID and the text holds both words (NULL = any). */
static inline void expect_refused(emq_status s, const emq_error *err, const char *given,
                                  const char *value, const char *rule)
{
    if (s != EMQ_E_INVALID || err->status != EMQ_E_INVALID || err->where[0] == '\0' ||
        (value && !strstr(err->text, value)) || (rule && !strstr(err->text, rule)))
        fail_msg("for '%s': status %d, text \"%s\", wanted \"%s\" and \"%s\"", given, (int)s,
                 err->text, value ? value : "", rule ? rule : "");
    if (strlen(err->text) + 1 >= sizeof err->text)
        fail_msg("for '%s': the text is cut: \"%s\"", given, err->text);
}

#endif
