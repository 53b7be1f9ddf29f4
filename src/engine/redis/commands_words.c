/* SPDX-License-Identifier: MIT
 *
 * See commands_words.h. Numbers are as strict as a server is with them.
 */
#include "engine/redis/commands_words.h"

#include "base/number.h"
#include "base/str.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <strings.h>

/* Times beyond this many ms, 146 million years, may be too long for a server that adds its own clock. */
#define MS_MAX (INT64_C(1) << 62)

/* ---- one word ---------------------------------------------------------------------------- */

static bool is(emq_str word, const char *text)
{
    return word.len == strlen(text) && strncasecmp(word.ptr, text, word.len) == 0;
}

static bool is_one_of(emq_str word, const char *const *list)
{
    for (; *list; list++)
        if (is(word, *list))
            return true;
    return false;
}

static bool is_whole(emq_str word, int64_t least, int64_t most)
{
    size_t sign = word.len && word.ptr[0] == '-';
    int64_t v;

    if (word.len > sign && word.ptr[sign] == '0' && word.len > 1)
        return false;
    return emq__str_to_i64(word, &v) && v >= least && v <= most;
}

static bool is_float(emq_str word, bool infinite)
{
    char text[64], *end = text;

    if (word.len == 0 || word.len >= sizeof text || isspace((unsigned char)word.ptr[0]))
        return false;
    memcpy(text, word.ptr, word.len);
    text[word.len] = '\0';
    errno = 0;
    double v = emq__strtod(text, &end);
    return errno == 0 && *end == '\0' && end == text + word.len && !isnan(v) &&
           (infinite || isfinite(v));
}

static bool is_score_bound(emq_str word)
{
    size_t open = word.len && word.ptr[0] == '(';

    return is_float(emq_strn(word.ptr + open, word.len - open), true);
}

static bool is_lex_bound(emq_str word)
{
    return is(word, "-") || is(word, "+") ||
           (word.len && (word.ptr[0] == '[' || word.ptr[0] == '('));
}

/* Digits of an unsigned number of 64 bits; how many; 0 = none, or too many. */
static size_t digits(emq_str s, uint64_t *v)
{
    size_t n = 0;

    for (*v = 0; n < s.len && isdigit((unsigned char)s.ptr[n]); n++) {
        uint64_t digit = (uint64_t)(s.ptr[n] - '0');
        if (*v > (UINT64_MAX - digit) / 10)
            return 0;
        *v = *v * 10 + digit;
    }
    return n;
}

/* MS or MS-SEQ. added: of a new entry, not 0-0, and SEQ may be a star. */
static bool is_stream_id(emq_str word, bool added)
{
    uint64_t ms, seq = 0;
    size_t n = digits(word, &ms);

    if (n == 0)
        return false;
    if (n < word.len) {
        emq_str rest = emq_strn(word.ptr + n + 1, word.len - n - 1);
        if (word.ptr[n] != '-')
            return false;
        if (added && is(rest, "*"))
            return true;
        if (rest.len == 0 || digits(rest, &seq) != rest.len)
            return false;
    }
    return !added || ms > 0 || seq > 0;
}

static const struct {
    char kind;
    int64_t least, most;
    const char *text;
} wholes[] = {
    {'i', INT64_MIN, INT64_MAX, "a whole number"},
    {'d', -INT64_MAX, INT64_MAX, "a whole number that can be taken away"},
    {'n', 0, INT64_MAX, "a whole number, 0 or more"},
    {'c', 0, (INT64_C(512) << 20) - 1, "an offset within 512 MiB"},
    {'o', 0, UINT32_MAX, "the offset of a bit within 512 MiB"},
    {'b', 0, 1, "a bit, 0 or 1"},
    {'s', 1, MS_MAX / 1000, "a number of seconds, at least 1"},
    {'m', 1, MS_MAX, "a number of milliseconds, at least 1"},
    {'t', -MS_MAX / 1000, MS_MAX / 1000, "a number of seconds"},
    {'u', -MS_MAX, MS_MAX, "a number of milliseconds"},
};

/* What a word that is no whole number must be; NULL: it is. */
static const char *of_kind(emq_str word, char kind)
{
    static const char *const sides[] = {"BEFORE", "AFTER", NULL};
    static const char *const whens[] = {"NX", "XX", "GT", "LT", NULL};

    switch (kind) {
    case 'f': return is_float(word, false) ? NULL : "a number";
    case 'z': return is_float(word, true) ? NULL : "a score: a number, inf or -inf";
    case 'r': return is_score_bound(word) ? NULL : "a bound of scores: a number, or ( and one";
    case 'l': return is_lex_bound(word) ? NULL : "a bound of members: [M, (M, - or +";
    case 'w': return is_one_of(word, sides) ? NULL : "BEFORE or AFTER";
    case 'e': return is_one_of(word, whens) ? NULL : "NX, XX, GT or LT";
    case 'x': return is_stream_id(word, false) ? NULL : "the id of an entry: 5 or 5-1";
    case 'y':
        return is(word, "*") || is_stream_id(word, true) ? NULL
                                                         : "the id of a new entry: *, 5 or 5-1";
    default: return NULL;
    }
}

const char *rd_word(struct rd_words *w, char kind)
{
    const char *wrong = NULL;

    if (w->at >= w->n)
        wrong = "all of its words";
    else
        wrong = of_kind(w->words[w->at], kind);
    for (size_t i = 0; !wrong && i < EMQ_ARRAY_LEN(wholes); i++)
        if (wholes[i].kind == kind && !is_whole(w->words[w->at], wholes[i].least, wholes[i].most))
            wrong = wholes[i].text;
    w->at += wrong == NULL;
    return wrong;
}

/* ---- options ----------------------------------------------------------------------------- */

static bool take(struct rd_words *w, const char *word)
{
    bool found = w->at < w->n && is(w->words[w->at], word);

    w->at += found;
    return found;
}

/* SET KEY VALUE [NX|XX] [EX S|PX MS|EXAT S|PXAT MS|KEEPTTL]; a GET would be answered to nobody. */
const char *rd_words_of_set(struct rd_words *w)
{
    static const char text[] = "one of NX, XX, or one of EX, PX, EXAT, PXAT, KEEPTTL";
    const char *wrong = NULL;
    int when = 0, until = 0;

    for (w->at = 3; !wrong && w->at < w->n;) {
        if (when == 0 && (take(w, "NX") || take(w, "XX")))
            when++;
        else if (until++ > 0)
            wrong = text;
        else if (take(w, "EX") || take(w, "EXAT"))
            wrong = rd_word(w, 's');
        else if (take(w, "PX") || take(w, "PXAT"))
            wrong = rd_word(w, 'm');
        else if (!take(w, "KEEPTTL"))
            wrong = text;
    }
    return wrong;
}

/* ZADD KEY [NX|XX] [GT|LT] [CH] [INCR] SCORE MEMBER ... */
const char *rd_words_of_zadd(struct rd_words *w)
{
    bool nx = false, xx = false, gt = false, lt = false, incr = false;
    const char *wrong = NULL;

    w->at = 2;
    for (bool more = true; more;) {
        bool ch = take(w, "CH");
        nx = nx | (more = take(w, "NX"));
        more |= ch;
        if (take(w, "XX"))
            more = xx = true;
        if (take(w, "GT"))
            more = gt = true;
        if (take(w, "LT"))
            more = lt = true;
        if (take(w, "INCR"))
            more = incr = true;
    }
    if (nx + gt + lt > 1 || (nx && xx))
        return "beside options that exclude each other (NX, XX; NX, GT, LT)";
    if ((w->n - w->at) % 2 != 0 || w->n == w->at || (incr && w->n - w->at > 2))
        return incr ? "one score with its member" : "pairs of a score and a member";
    for (; !wrong && w->at < w->n; w->at += !wrong)
        wrong = rd_word(w, 'z');
    return wrong;
}

/* [MAXLEN|MINID [=|~] THRESHOLD [LIMIT COUNT]]; *found: there was one. */
static const char *take_trim(struct rd_words *w, bool *found)
{
    bool by_id = take(w, "MINID");

    *found = by_id || take(w, "MAXLEN");
    if (!*found)
        return NULL;
    bool about = take(w, "~");
    if (!about)
        (void)take(w, "=");
    const char *wrong = rd_word(w, by_id ? 'x' : 'n');
    if (!wrong && about && take(w, "LIMIT"))
        wrong = rd_word(w, 'n');
    return wrong;
}

/* XADD KEY [NOMKSTREAM] [...] ID FIELD VALUE ... */
const char *rd_words_of_xadd(struct rd_words *w)
{
    const char *wrong = NULL;
    bool makes = false, trims = false;

    w->at = 2;
    for (bool more = true; !wrong && more;) {
        more = !makes && take(w, "NOMKSTREAM");
        makes |= more;
        if (!more && !trims) {
            wrong = take_trim(w, &more);
            trims = more;
        }
    }
    if (!wrong)
        wrong = rd_word(w, 'y');
    if (!wrong && (w->at == w->n || (w->n - w->at) % 2 != 0))
        wrong = "pairs of a field and a value";
    return wrong;
}

/* XTRIM KEY ... */
const char *rd_words_of_xtrim(struct rd_words *w)
{
    bool found;

    w->at = 2;
    const char *wrong = take_trim(w, &found);
    return wrong                    ? wrong
           : found && w->at == w->n ? NULL
                                    : "MAXLEN N or MINID ID, [LIMIT N] behind ~";
}
