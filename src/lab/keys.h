/* SPDX-License-Identifier: MIT
 *
 * The keys that labs made on a server.
 */
#ifndef EMQ_LAB_KEYS_H
#define EMQ_LAB_KEYS_H

#include <echomq/echomq.h>

/* Every key that begins with the prefix. */
emq_status lab_keys_remove(emq_client *c, const char *prefix, emq_error *err);
/* A key of the prefix that lives for ten minutes. */
emq_status lab_mark_renew(emq_client *c, const char *prefix, emq_error *err);
/* The keys of every other prefix of a lab whose mark has ended. */
emq_status lab_left_keys_remove(emq_client *c, const char *prefix, emq_error *err);

#endif
