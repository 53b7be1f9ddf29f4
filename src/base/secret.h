/* SPDX-License-Identifier: MIT
 *
 * Messages may have a URL in them, mistyped or in the wrong place, and that one a password.
 */
#ifndef EMQ_BASE_SECRET_H
#define EMQ_BASE_SECRET_H

#include "base/base.h"

/* Overwrites with 'x' what may be a secret in a text with URLs. Behind a word as "redis+tls:", "redis//" or
 * "REDIS:\\": up to the last '@'; and all, up to the end of the text, behind "pass…=", behind a ':' that no port
 * follows (without an '@': where two of ":;/\" end the scheme), and behind a user without a password.
 * Of other schemes: what stands between "//" and '@' in one word. Whether there was any. */
bool emq__hide_secrets(char *text, size_t len);

#endif
