#!/usr/bin/env bats
load common

ROOT=$BATS_TEST_DIRNAME/../..

@test "every command and program of the documentation runs and prints what it says" {
    run "$ROOT/tools/doccheck" "$EMQ_DIR" "$ROOT"/README.md "$ROOT"/docs/*.md
    [ "$status" = 0 ] || { echo "$output" >&2; return 1; }
}

@test "the page echomq-delivery(7) is valid and has all of docs/guarantees.md" {
    page=$EMQ_DIR/echomq-delivery.7
    run mandoc -Tlint -Wwarning "$page"
    [ "$status" = 0 ] || { echo "$output" >&2; return 1; }
    mandoc -Tascii "$page" | col -b | tr -s ' \t\n' ' ' >text
    for words in 'one last message' 'THE POINTS OF A JOB' 'int main(void)' 'WHAT DEDUP IS NOT' '$ cat ledger'; do
        grep -qF -- "$words" text || { echo "it lacks: $words" >&2; return 1; }
    done
    run grep -nE '`|\*\*|\|---|<!--|\]\(' text
    [ "$status" = 1 ] || { echo "$output" >&2; return 1; }
}

@test "every verb has a man page that is installed" {
    for verb in $(emq help | sed -nE 's/^  ([a-z]+) .*/\1/p'); do
        grep -q "'$verb'" <(sed -n '/^verbs = /,/]/p' "$ROOT/meson.build") || { echo "$verb" >&2; return 1; }
    done
}

@test "an installed copy builds the examples, shared and static" {
    DESTDIR=$BOX/stage meson install -C "$EMQ_DIR" --no-rebuild --quiet
    local at=$BOX/stage/usr/local
    [ -x "$at/bin/emq" ]
    [ -f "$at/share/man/man1/emq-add.1" ]
    [ -f "$at/share/man/man7/echomq-delivery.7" ]
    [ -f "$at/share/bash-completion/completions/emq.bash" ]
    local private libpq
    libpq=$(pkg-config --cflags --libs libpq 2>/dev/null) || : # its example is left out
    export PKG_CONFIG_SYSROOT_DIR=$BOX/stage PKG_CONFIG_PATH
    PKG_CONFIG_PATH=$(dirname "$(find "$at" -name echomq.pc)")
    local lib
    lib=$(dirname "$(find "$at" -name libechomq.so.0)")
    private=$(pkg-config --print-requires-private echomq | cut -d' ' -f1)
    for example in "$ROOT"/examples/*.c; do
        [[ $example != *postgres* || $libpq ]] || continue
        # shellcheck disable=SC2046,SC2086
        cc "$example" -o shared $(pkg-config --cflags --libs echomq sqlite3) $libpq -pthread
        # shellcheck disable=SC2046,SC2086
        cc "$example" -o static $(pkg-config --cflags echomq) "$lib/libechomq.a" $(pkg-config --libs $private) $libpq -pthread
        ldd ./shared | grep -q libechomq.so.0
    done
}
