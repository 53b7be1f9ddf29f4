#!/bin/sh
# Every test that README.md names exists.
set -eu
cd "$(dirname "$0")"
names=$(grep '^|' README.md | grep -v '^| report\|^|---' | grep -o '`[^`]*`' | tr -d '`')
[ -n "$names" ]
missing=$(printf '%s\n' "$names" | while IFS= read -r name; do
    grep -rqF -e "($name)" -e "@test \"$name\"" --include='*.c' --include='*.bats' .. || echo "$name"
done)
[ -z "$missing" ] || { printf 'README.md names tests that do not exist:\n%s\n' "$missing" >&2; exit 1; }
echo "$(printf '%s\n' "$names" | sort -u | wc -l) tests are named, all exist"
