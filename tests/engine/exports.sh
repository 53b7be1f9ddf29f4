#!/bin/sh
# SPDX-License-Identifier: MIT
#
# What the library exports, shared or static, is what src/libechomq.sym lists, and that is what the headers declare.
#   exports.sh LIBRARY SYM HEADER...
set -eu
library=$1 sym=$2
shift 2
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

case $library in *.a) names=-g ;; *) names=-D ;; esac
nm $names --defined-only "$library" | awk 'NF == 3 && $2 != "A" { sub(/@.*/, "", $3); print $3 }' | LC_ALL=C sort >"$dir/built"
sed -n 's/^    \(emq_[a-z_]*\);$/\1/p' "$sym" >"$dir/listed"
LC_ALL=C sort -c "$dir/listed"
# A declaration may be spread over lines: joined, then cut at ECHOMQ_API.
cat "$@" | grep -v '^#' | tr '\n' ' ' | sed 's/ECHOMQ_API /\n&/g' |
    sed -n 's/^ECHOMQ_API [^(]*[ *]\(emq_[a-z_]*\)(.*/\1/p' | LC_ALL=C sort >"$dir/declared"
diff "$dir/listed" "$dir/built"
diff "$dir/listed" "$dir/declared"
