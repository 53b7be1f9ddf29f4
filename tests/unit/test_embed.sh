#!/bin/sh
# SPDX-License-Identifier: MIT
#
# What tools/embed makes of good input, and that bad input stops the build with file:line.
# usage: test_embed.sh EMBED
set -u
embed=$1
dir=$(mktemp -d) || exit 99
trap 'rm -rf "$dir"' EXIT
failed=0

fail() {
    echo "not ok: $*" >&2
    failed=1
}

# refuses TEXT-OF-FILE WANTED-MESSAGE
refuses() {
    printf -- "$1" >"$dir/bad.sql"
    if "$embed" p "$dir/o.h" "$dir/o.c" "$dir/bad.sql" 2>"$dir/err"; then
        fail "accepted: $1"
    elif ! grep -qF "$dir/bad.sql:$2" "$dir/err"; then
        fail "wrong message for: $1"
        cat "$dir/err" >&2
    fi
}

refuses 'SELECT 1\n' '1: error: text in front of the first'
refuses '' "1: error: no '-- name:' line"
refuses '-- only a comment\n' "1: error: no '-- name:' line"
refuses '-- name: a\n-- nothing\n\n-- name: b\nx\n' "1: error: entry 'a' is empty"
refuses '-- name: a\nx\n-- name: b\n' "3: error: entry 'b' is empty"
refuses '-- name: a\nx\n-- name: a\ny\n' "3: error: name 'a' is taken"
refuses '-- name: A\nx\n' "1: error: name 'A' is not"
refuses '-- name:\nx\n' "1: error: name '' is not"
refuses '-- name: a b\nx\n' "1: error: name 'a b' is not"
refuses '-- name: a\nx\000y\nz\n' '2: error: line is longer'

"$embed" p "$dir/o.h" "$dir/o.c" "$dir/absent.sql" 2>"$dir/err" && fail "accepted an absent file"
grep -qF "$dir/absent.sql:0: error: can't be opened" "$dir/err" || fail "absent file: no message"
"$embed" p "$dir/o.h" 2>/dev/null && fail "accepted too few arguments"

# The texts arrive as they were, whatever bytes they hold; comment lines of statements do not.
printf -- '-- head\n\n-- name: one\n  -- why\nSELECT "a\\b",\t??=1; -- tail\n-- name: two\nx' >"$dir/s.sql"
printf -- '-- KEYS: 1\n\nreturn "\303\251"\n' >"$dir/script_a.lua"
cat >"$dir/main.c" <<'C'
#include <stdio.h>
#include "o.h"
int main(void)
{
    for (int i = 0; i < PRE_X_COUNT; i++)
        printf("[%s|%s]", pre_x_name[i], pre_x_text[i]);
    return PRE_X_one == 0 && PRE_X_script_a == 2 ? 0 : 1;
}
C
if "$embed" pre_x "$dir/o.h" "$dir/o.c" "$dir/s.sql" "$dir/script_a.lua" &&
    ${CC:-cc} -std=c17 -Wall -Wextra -Wpedantic -Werror -o "$dir/main" "$dir/main.c" "$dir/o.c" &&
    "$dir/main" >"$dir/out"; then
    printf '[one|SELECT "a\\b",\t??=1; -- tail\n][two|x][script_a|-- KEYS: 1\n\nreturn "\303\251"\n]' >"$dir/want"
    cmp "$dir/want" "$dir/out" || fail "the texts changed on the way"
else
    fail "good input was refused"
fi

# A script's includes stand where they are named, once each, whoever names them.
mkdir -p "$dir/lua/lib"
printf 'local a = 1' >"$dir/lua/lib/a.lua"
printf -- '--@include lib/a.lua\nlocal b = a\n' >"$dir/lua/lib/b.lua"
printf -- '-- act\n--@include lib/b.lua\n--@include lib/a.lua\nreturn b\n' >"$dir/lua/act.lua"
"$embed" --expand "$dir/lua/act.lua" >"$dir/out" || fail "includes were refused"
printf -- '-- act\nlocal a = 1\nlocal b = a\nreturn b\n' | cmp - "$dir/out" || fail "includes: the text is another"
"$embed" pre_x "$dir/o.h" "$dir/o.c" "$dir/lua/act.lua" && grep -qF 'local a = 1' "$dir/o.c" ||
    fail "includes are not embedded"
printf 'x\n--@include lib/c.lua\n' >"$dir/lua/bad.lua"
"$embed" --expand "$dir/lua/bad.lua" >"$dir/out" 2>"$dir/err" && fail "included an absent file"
grep -qF "$dir/lua/bad.lua:2: error: '$dir/lua/lib/c.lua' can't be opened" "$dir/err" ||
    fail "absent include: no message"
printf 'x\n--@include lib/a.lua b\n' >"$dir/lua/bad.lua"
"$embed" --expand "$dir/lua/bad.lua" >"$dir/out" 2>"$dir/err" && fail "included two files by one line"
: >"$dir/lua/bad.lua"
"$embed" p "$dir/o.h" "$dir/o.c" "$dir/lua/bad.lua" 2>"$dir/err" && fail "accepted an empty script"
exit $failed
