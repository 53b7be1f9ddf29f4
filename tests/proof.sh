#!/bin/sh
# Every test that docs/proof.md names exists: a C test, a test of bats, of Node, of meson, a check of spec/check,
# or a file; and every promise names one.
set -eu
cd "$(dirname "$0")/.."
export LC_ALL=C
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

sed -nE 's/^\|[^|]*\|(.*)\|$/\1/p' docs/proof.md | grep -o '`[^`]*`' | tr -d '`' | sort -u >"$dir/named"
[ -s "$dir/named" ]
{
    grep -rhoE '^ *([A-Z_]+\(("[a-z-]+", )?)?[a-zA-Z0-9_]+[,)]' tests --include='*.c' | sed -E 's/.*[ (](.*)[,)]$/\1/'
    grep -rhoE '^@test "[^"]*"' tests --include='*.bats' | sed -E 's/^@test "(.*)"$/\1/'
    grep -hoE "^ *(test|both|sound|broken)\('[^']*'" tests/interop/*.test.js | sed -E "s/.*'(.*)'$/\1/"
    grep -rhoE "^test\('[^']*'" tests --include=meson.build | sed -E "s/.*'(.*)'$/\1/"
    sed -nE -e 's/^model ("([^"]*)"|([a-z-]+)).*/m \2\3/p' -e 's/^(holds|finds) [a-z_]+ "(.*)"$/c \2/p' spec/check |
        awk '/^m /{ model = substr($0, 3) } /^c /{ print model ": " substr($0, 3) }'
} | sort -u >"$dir/there"
comm -23 "$dir/named" "$dir/there" | while IFS= read -r name; do
    case $name in */*) [ -e "$name" ] && continue ;; esac
    echo "$name"
done >"$dir/missing"
[ ! -s "$dir/missing" ] || { echo 'docs/proof.md names what does not exist:'; cat "$dir/missing"; exit 1; } >&2
# A row without a name that is no heading.
bare=$(awk 'row && !/^\|---/ { print row } { row = /^\|[^`]*\|$/ && !/^\|---/ ? NR ":" $0 : "" } END { if (row) print row }' docs/proof.md)
[ -z "$bare" ] || { printf 'docs/proof.md has promises without a test:\n%s\n' "$bare" >&2; exit 1; }
echo "$(grep -cE '^\|.*`' docs/proof.md) promises name $(wc -l <"$dir/named") tests, all exist"
