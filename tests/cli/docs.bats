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
    mandoc -Tascii "$page" | sed 's,.\x08,,g' | tr -s ' \t\n' ' ' >text
    for words in 'one last message' 'THE POINTS OF A JOB' 'int main(void)' 'WHAT DEDUP IS NOT' '$ cat ledger'; do
        grep -qF -- "$words" text || { echo "it lacks: $words" >&2; return 1; }
    done
    run grep -nE '`|\*\*|\|---|<!--|\]\(' text
    [ "$status" = 1 ] || { echo "$output" >&2; return 1; }
}

@test "the inbox of the documentation works with several jobs at once" {
    without_server
    awk '/^\$ sqlite3 shop.db <</ {on = 1} /^\$ emq add orders/ {exit} on {print substr($0, 3)}' \
        "$BATS_TEST_DIRNAME/../../docs/guarantees.md" >setup.sh
    sh setup.sh
    [ -s sell.sh ]
    yes '{"data":7}' | head -n 60 | emq add orders --batch - >/dev/null
    emq work orders --concurrency 6 --exit-when-empty --json -- sh sell.sh 2>err || { cat err >&2; return 1; }
    [ "$(sqlite3 shop.db 'SELECT n FROM stock')" = -50 ]
    emq stats orders --json | jq -e '.totals.retried == 0 and .completed == 60' || { cat err >&2; return 1; }
}

@test "a producer that uses id and creation time again has made the same identity" {
    for i in 1 2; do
        echo '{"id":"a","timestamp":1700000000000}' | emq add q --batch - >/dev/null
        emq work q --exit-when-empty -- emq effect run pay -- sh -c 'echo paid >>ledger'
        emq rm q a
    done
    [ "$(wc -l <ledger)" -eq 1 ]
}

# The paragraph "calls" of a script's header, on one line.
calls() { sed -nE '/^-- calls /,/^(--@|$|[^-])/s/^-- (calls)? +//p' "$1" | xargs -d '\n'; }

@test "the costs that the architecture tells are those of the scripts" {
    without_server
    local name calls n=0
    while IFS='|' read -r _ name calls _; do
        name=$(tr -d ' `' <<<"$name")
        [ "$(calls "$ROOT/src/engine/redis/lua/$name.lua")" = "$(sed -E 's/^ +| +$//g' <<<"$calls")" ] ||
            { echo "$name: $calls" >&2; return 1; }
        n=$((n + 1))
    done < <(sed -n '/^### Costs on a server/,/^### /p' "$ROOT/ARCHITECTURE.md" | grep '^| `')
    [ "$n" -eq 10 ]
}

@test "every verb has a man page that is installed" {
    without_server
    for verb in $(emq help | sed -nE 's/^  ([a-z]+) .*/\1/p'); do
        grep -q "'$verb'" <(sed -n '/^verbs = /,/]/p' "$ROOT/meson.build") || { echo "$verb" >&2; return 1; }
    done
}

@test "the text of a help fits into 120 columns" {
    without_server
    for verb in $(emq help | sed -nE 's/^  ([a-z]+) .*/\1/p'); do
        emq help "$verb" | sed '1d;/^options/,$d' >text
        ! grep -E '.{121}' text || { echo "emq help $verb" >&2; return 1; }
        emq help "$verb" | head -1 | grep -q "^usage: emq $verb\( [^ ].*\)\?$" || { echo "$verb" >&2; return 1; }
    done
}

@test "an installed copy builds the examples as they say, shared and static, and leaves all other names to the program" {
    without_server
    DESTDIR=$BOX/stage meson install -C "$EMQ_DIR" --no-rebuild --quiet
    local at=$BOX/stage/usr/local
    [ -x "$at/bin/emq" ]
    [ -f "$at/share/man/man1/emq-add.1" ]
    [ -f "$at/share/man/man7/echomq-delivery.7" ]
    [ -f "$at/share/bash-completion/completions/emq.bash" ]
    ln -s /usr/include "$BOX/stage/usr/include" # of other libraries, seen from there
    export PKG_CONFIG_SYSROOT_DIR=$BOX/stage PKG_CONFIG_PATH
    PKG_CONFIG_PATH=$(dirname "$(find "$at" -name echomq.pc)")
    local lib
    lib=$(dirname "$(find "$at" -name libechomq.so.0)")
    local needs
    needs="$(pkg-config --static --libs echomq | sed 's/-lechomq//') $(pkg-config --libs libpq)"
    for example in "$ROOT"/examples/*.c; do
        (cd "$ROOT/examples" && eval "$(sed -nE 's/^ \* (cc [a-z_]+\.c .*)/\1/p' "$example") -o '$BOX/shared'")
        # shellcheck disable=SC2046
        cc "$example" -o static $(pkg-config --cflags echomq libpq) "$lib/libechomq.a" $needs
        ldd ./shared | grep -q libechomq.so.0
    done
    cat >own.c <<-'END'
		#include <echomq/echomq.h>
		int sq_open(void), rd_open(void), emq__fail(void);
		int sq_open(void) { return 1; }
		int rd_open(void) { return 2; }
		int emq__fail(void) { return 3; }
		int main(void)
		{
		    emq_client *c;
		    emq_error err;
		    return emq_open(&c, emq_cstr("sqlite:"), NULL, &err) == EMQ_E_INVALID && err.text[0] ? 0 : 1;
		}
	END
    # shellcheck disable=SC2046
    cc own.c -o own $(pkg-config --cflags echomq) "$lib/libechomq.a" $needs
    ./own
}
