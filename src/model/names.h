/* SPDX-License-Identifier: MIT
 *
 * Rules for names. Each check returns EMQ_OK or EMQ_E_INVALID with the rule that was broken.
 */
#ifndef EMQ_MODEL_NAMES_H
#define EMQ_MODEL_NAMES_H

#include "base/base.h"

emq_status emq__check_queue(emq_str name,
                            emq_error *err); /* 1..128 bytes UTF-8, no ':', no control bytes */
emq_status emq__check_prefix(emq_str name,
                             emq_error *err); /* 1..128 bytes UTF-8, no control bytes */
/* 1..255 bytes UTF-8, no control bytes, not all digits, not "0" or "0:…", no ':' unless it splits
 * in exactly three parts (docs/protocol.md section 1.3). */
emq_status emq__check_custom_id(emq_str id, emq_error *err);
/* An id that may name an existing job: 1..255 bytes UTF-8, no control bytes. Wider than the rule
 * for new ids, so that jobs of other producers can be named. */
emq_status emq__check_id(emq_str id, emq_error *err);
emq_status emq__check_job_name(emq_str name,
                               emq_error *err); /* 1..255 bytes UTF-8, no control bytes */
emq_status emq__check_worker(emq_str name,
                             emq_error *err); /* 1..128 bytes, UTF-8, no spaces, no control bytes */
emq_status emq__check_dedup_id(emq_str id,
                               emq_error *err); /* 1..255 bytes UTF-8, no control bytes */
emq_status emq__check_group(emq_str name,
                            emq_error *err); /* 1..255 bytes UTF-8, no control bytes */

#endif
