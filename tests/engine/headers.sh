#!/bin/sh
# SPDX-License-Identifier: MIT
#
# Every public header compiles alone, in C and in C++, in every standard a user may have chosen; every
# internal header compiles alone too.
#   headers.sh SOURCE_ROOT CC CXX BUILD_ROOT
set -eu
cd "$1"
cc=$2 cxx=$3 build=$4
warnings='-Wall -Wextra -Wpedantic -Wshadow -Wconversion -Werror'

for header in include/echomq/*.h; do
    for std in c99 c11 c17 c2x; do
        echo "#include <echomq/${header##*/}>" |
            $cc -std=$std $warnings -Wstrict-prototypes -Iinclude -fsyntax-only -x c -
    done
    [ "$cxx" = none ] && continue
    for std in c++11 c++14 c++17 c++20; do
        # Taking a struct's size is what every user of the options does.
        printf '#include <echomq/%s>\nstatic inline emq_add_opts f() { emq_add_opts o = {}; o.size = sizeof o; return o; }\n' \
            "${header##*/}" |
            $cxx -std=$std $warnings -Wold-style-cast -Wno-unused-function -Iinclude -fsyntax-only -x c++ -
    done
done
for header in $(find src/base src/model src/engine src/client src/worker -name '*.h'); do
    echo "#include \"${header#src/}\"" |
        $cc -std=c17 -D_GNU_SOURCE -Wall -Wextra -Werror -Wno-unused-function -Iinclude -Isrc \
            -I"$build/src/engine/sqlite" -I"$build/src/engine/redis" -fsyntax-only -x c - || exit 1
done
