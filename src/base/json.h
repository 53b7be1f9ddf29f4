/* SPDX-License-Identifier: MIT
 *
 * JSON by RFC 8259: a scanner that accepts exactly what JSON.parse accepts, and a writer.
 * Payload bytes are copied, never rebuilt: values are handed around as slices of the text.
 */
#ifndef EMQ_BASE_JSON_H
#define EMQ_BASE_JSON_H

#include "base/arena.h"
#include "base/buf.h"

/* Is the whole text one JSON value (white space around it allowed)? Depth is not limited by the
 * stack. With `pos` the byte offset of the first fault is stored on false. UTF-8 must be valid.
 * Beyond 2,048 levels one bit a level is allocated; without that memory the text is refused. */
bool emq__json_valid(emq_str text, size_t *pos);

enum emq__json_type {
    EMQ__JSON_NULL = 1,
    EMQ__JSON_FALSE,
    EMQ__JSON_TRUE,
    EMQ__JSON_NUMBER,
    EMQ__JSON_STRING,
    EMQ__JSON_ARRAY,
    EMQ__JSON_OBJECT
};
/* A value inside a text already known to be valid: its type and its exact bytes. */
struct emq__json {
    enum emq__json_type type;
    emq_str raw;
};

/* The value of a valid text; a type of 0, which every reader refuses, when the text is empty. */
struct emq__json emq__json_root(emq_str valid_text);
/* Walks an object or array: start with *pos = 0, false at the end. For arrays key is empty; keys
 * are raw slices with their quotes removed, escapes left in (see emq__json_unescape). */
bool emq__json_next(struct emq__json container, size_t *pos, emq_str *raw_key,
                    struct emq__json *value);
/* Member by plain name; the last one wins as in JSON.parse; false if absent. */
bool emq__json_get(struct emq__json object, const char *name, struct emq__json *value);
/* Decodes a string value (escapes resolved; a lone surrogate becomes U+FFFD) into the arena.
 * false: not a string or no memory. */
bool emq__json_str(struct emq__json v, struct emq__arena *mem, emq_str *out);
/* Is it a string without a lone surrogate, so that emq__json_str() gives exactly what was written? */
bool emq__json_exact(struct emq__json v);
/* The same for a raw key of emq__json_next(). */
bool emq__json_unescape(emq_str raw_key, struct emq__arena *mem, emq_str *out);
bool emq__json_i64(struct emq__json v, int64_t *out);   /* whole numbers only, 1e3 allowed, exact */
bool emq__json_double(struct emq__json v, double *out); /* false beyond the finite doubles too */

/* Writers: append to a buffer. The comma is the caller's: emq__json_key writes `"name":`, preceded
 * by a comma unless the last byte is '{' or '['. */
void emq__json_key(struct emq__buf *b, const char *name);
void emq__json_i64_member(struct emq__buf *b, const char *name, int64_t v);
void emq__json_i64_member_if(struct emq__buf *b, const char *name, int64_t v); /* unless it is 0 */
void emq__json_sep(struct emq__buf *b); /* comma unless after '{', '[', ':' or at the start */
void emq__json_quote(struct emq__buf *b,
                     emq_str utf8); /* a JSON string; invalid UTF-8 becomes U+FFFD */
/* Valid JSON as it is, on one line: its line breaks, which stand only between tokens, become spaces. */
void emq__json_line(struct emq__buf *b, emq_str valid_json);
void emq__json_double_out(struct emq__buf *b, double v); /* shortest that reads back; finite only */

/* Base64, standard alphabet with padding. */
void emq__base64(struct emq__buf *b, emq_str bytes);
bool emq__base64_decode(emq_str text, struct emq__arena *mem, emq_str *out);

#endif
