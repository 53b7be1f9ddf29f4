/* SPDX-License-Identifier: MIT
 *
 * See secret.h. The invariant: rather a word too much is hidden than a password shown.
 */
#include "base/secret.h"

#include "base/str.h"

#include <strings.h>

static bool hide(char *from, const char *to)
{
    bool any = from < to;

    for (char *p = from; p < to; p++)
        *p = 'x';
    return any;
}

/* By a caller before: what is hidden twice stays the same. */
static bool is_hidden(const char *p, const char *to)
{
    while (p < to && *p == 'x')
        p++;
    return p == to;
}

static bool is_one_of(char ch, const char *set)
{
    return ch && strchr(set, ch);
}

static bool is_letter(char ch)
{
    char low = (char)(ch | 0x20);

    return low >= 'a' && low <= 'z';
}

static bool in_host(char ch)
{
    return is_letter(ch) || emq__is_digit(ch) || (unsigned char)ch >= 0x80 ||
           is_one_of(ch, ".-_,[]");
}

static char *last(char *from, char *to, char ch)
{
    return from < to ? memrchr(from, ch, (size_t)(to - from)) : NULL;
}

/* "6379", and what may follow a port. */
static bool is_port(const char *p, const char *end)
{
    int digits = 0;

    for (; p < end && emq__is_digit(*p); p++)
        digits++;
    return digits >= 1 && digits <= 5 && (p == end || is_one_of(*p, ",/?:;\"') \n") || *p == '\0');
}

/* Hosts, ports and a path at p: what a ':' is followed by and is no port may be a password. */
static bool hide_no_ports(char *p, char *end)
{
    bool v6 = false;

    for (; p < end && (in_host(*p) || is_one_of(*p, ":/")); p++) {
        v6 = *p == '[' || (v6 && *p != ']');
        bool over = p + 1 == end || is_one_of(p[1], " \n") || p[1] == '\0';
        if (*p == ':' && !v6 && !over && !is_port(p + 1, end))
            return hide(p + 1, end);
    }
    return false;
}

static bool hide_params(char *p, char *end)
{
    for (; end - p > 4; p++) {
        char *eq = strncasecmp(p, "pass", 4) == 0 ? p + 4 : NULL;
        while (eq && eq < end && is_letter(*eq))
            eq++;
        if (eq && eq < end && *eq == '=')
            return hide(eq + 1, end);
    }
    return false;
}

/* p: behind the scheme of a Redis URL. narrow: one byte ends the scheme, as in many a text. */
static bool hide_url(char *p, char *end, bool narrow)
{
    char *at = last(p, end, '@');
    bool any = hide_params(p, end);

    if (at) {
        bool lone = !memchr(p, ':', (size_t)(at - p)) && !is_hidden(p, at);
        any |= hide(p, at);
        p = at + 1;
        if (lone) /* "user@…": the other half may stand behind it */
            any |= hide(p, end);
    }
    return (at || !narrow) && hide_no_ports(p, end) ? true : any;
}

/* p: "//" of any URL. A word alone is looked at. */
static bool hide_word(char *p, char *end)
{
    char *stop = p;

    while (stop < end && *stop && !is_one_of(*stop, " \"\n\t"))
        stop++;
    char *at = last(p, stop, '@');
    return at && hide(p + 2, at);
}

bool emq__hide_secrets(char *text, size_t len)
{
    char *end = text + len;
    bool any = false;

    for (char *p = text; p < end; p++) {
        if (end - p > 2 && p[0] == '/' && p[1] == '/')
            any |= hide_word(p, end);
        if (end - p < 7 || strncasecmp(p, "redis", 5) != 0)
            continue;
        char *mark = p + 5;
        while (mark < end && (is_letter(*mark) || *mark == '+'))
            mark++;
        char *rest = mark;
        if (rest < end && is_one_of(*rest, ":;"))
            rest++;
        while (rest < end && is_one_of(*rest, "/\\"))
            rest++;
        if (mark < end && *mark == '%') /* ":" in percent form */
            any |= hide(mark, end);
        else if (rest > mark && rest < end && *rest && !is_one_of(*rest, " \"\n"))
            any |= hide_url(rest, end, rest - mark == 1);
    }
    return any;
}
