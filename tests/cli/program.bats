#!/usr/bin/env bats
load common

@test "without a verb the help goes to stderr and the exit is 64" {
    expect 64 emq
    [[ $stderr == *usage* ]]
    expect 64 emq frobnicate
    says frobnicate
    expect 64 emq --no-such-option
}

@test "help and version go to stdout and exit 0" {
    expect 0 emq --help
    [[ $output == *usage* ]]
    expect 0 emq help add
    [[ $output == *--dedup* ]]
    expect 0 emq add --help
    [[ $output == *--dedup* ]]
    expect 0 emq --version
    [[ $output == "emq 0."* ]]
    expect 0 emq version --json
    field .version
    expect 64 emq help nothing
}

@test "help tells what every exit code means, and the limits, as the man page does" {
    expect 0 emq help
    [[ $output == *"  77           the store refused"* ]]
    [[ $output == *"  1 MiB        result of a job"* ]]
    expect 0 emq help --json
    [ "$(field '.exits | length')" = "$(emq help --man | sed -n '/^.Sh EXIT STATUS/,$p' | grep -c '^\.It [0-9]')" ]
    [ "$(field '.exits[] | select(.code == 79).help')" = "in doubt: it may or may not have happened" ]
    [ "$(field '.limits[] | select(.of == "data of a job").max')" = 16777216 ]
    [ "$(emq help --man | grep -A1 '^\.It result of a job' | tail -1)" = "1 MiB" ]
}

@test "version names what the build is made of" {
    expect 0 emq version
    [[ $output == "emq 0."*" (SQLite 3."*", "*"hiredis "*", "* || $output == *"no Redis"* ]]
    [ "$(emq version --json | jq -r '.sqlite, .hiredis // "none"' | grep -c '^[0-9n]')" = 2 ]
}

@test "every verb has help that lists its options" {
    for verb in $(emq help | sed -nE 's/^  ([a-z]+) .*/\1/p'); do
        run emq help "$verb"
        [ "$status" = 0 ] || { echo "$verb" >&2; return 1; }
        [[ $output == "usage: emq $verb"* ]]
    done
}

@test "globals stand before or after the verb" {
    expect 0 emq --url "sqlite:$BOX/other.db" --prefix p add q x
    expect 0 emq stats q --json --prefix p --url "sqlite:$BOX/other.db"
    [ "$(field .waiting)" = 1 ]
    expect 0 emq stats q --json --url "sqlite:$BOX/other.db"
    [ "$(field .waiting)" = 0 ]
}

@test "--url wins over EMQ_URL, and without both the state folder is used" {
    unset EMQ_URL
    export XDG_STATE_HOME=$BOX/state
    expect 0 emq add q x
    [ -f "$BOX/state/echomq/queue.db" ]
    [ "$(stat -c %a "$BOX/state/echomq/queue.db")" = 600 ]
    [ "$(stat -c %a "$BOX/state/echomq")" = 700 ]
}

@test "stores that can't be opened are named with their reason" {
    expect 64 emq stats q --url nonsense
    says nonsense
    expect 64 emq stats q --url mysql://x
    says mysql
    expect 64 emq stats q --url 'sqlite:x.db?sync=maybe'
    says maybe
    expect 64 emq stats q --url 'sqlite:x.db?no=1'
    [[ $status -ne 0 ]]
    run --separate-stderr emq stats q --url "sqlite:$BOX/missing/dir/queue.db"
    [ "$status" -ne 0 ]
    says missing
    run --separate-stderr emq stats q --url "sqlite:$BOX"
    [ "$status" -ne 0 ]
    echo "this is no database, it is text of some length, and more than a header" >text
    run --separate-stderr emq stats q --url "sqlite:$BOX/text"
    [ "$status" -eq 74 ]
    says text
}

@test "a file with odd characters in its name works" {
    expect 0 emq add q x --url "sqlite:$BOX/a%20b%3F%25%23ü.db"
    [ -f "$BOX/a b?%#ü.db" ]
    expect 0 emq stats q --json --url "sqlite:$BOX/a%20b%3F%25%23ü.db"
    [ "$(field .waiting)" = 1 ]
}

@test "a full standard output is an error" {
    for i in $(seq 1 500); do echo "{\"data\":$i}"; done | emq add q --batch - --quiet
    run bash -c 'emq ls q --json >/dev/full'
    [ "$status" = 74 ]
}

@test "a limit on the size of files kills no program: what became of the job is told as unknown" {
    without_server
    emq add q x
    expect 79 bash -c 'ulimit -f 200; head -c 300000 /dev/zero | emq add q -'
    says "may or may not"
    id=$(emq add q y)
    [ "$(emq stats q --json | jq .waiting)" -eq "$id" ]
}

@test "completion is made from the table of verbs" {
    expect 0 emq completion bash
    bash -n <<<"$output"
    eval "$output"
    COMP_WORDS=(emq ob) COMP_CWORD=1
    _emq
    [ "${COMPREPLY[*]}" = obliterate ]
    COMP_WORDS=(emq add q --dedup-m) COMP_CWORD=3
    _emq
    [ "${COMPREPLY[*]}" = --dedup-mode ]
    COMP_WORDS=(emq add q --dedup-mode e) COMP_CWORD=4
    _emq
    [ "${COMPREPLY[*]}" = extend ]
    COMP_WORDS=(emq ls --state pr) COMP_CWORD=3
    _emq
    [ "${COMPREPLY[*]}" = prioritized ]
    expect 64 emq completion tcsh
}

@test "completion offers the queues of the store that is named, quoted, and runs nothing of them" {
    eval "$(emq completion bash)"
    emq add 'a$(touch evaluated)' x
    emq add 'a b' x
    emq --url ./elsewhere.db add other x
    COMP_WORDS=(emq stats a) COMP_CWORD=2
    _emq
    printf '%s\n' "${COMPREPLY[@]}" | sort >offered
    printf '%s\n' 'a\$\(touch\ evaluated\)' 'a\ b' | sort | cmp - offered
    [ ! -e evaluated ]
    COMP_WORDS=(emq --url ./elsewhere.db stats '') COMP_CWORD=4
    _emq
    [ "${COMPREPLY[*]}" = other ]
    for verb in help dedup; do
        COMP_WORDS=(emq "$verb" a) COMP_CWORD=2
        _emq
        [ ${#COMPREPLY[@]} -eq 0 ]
    done
}

@test "man pages are valid" {
    for verb in '' $(emq help | sed -nE 's/^  ([a-z]+) .*/\1/p'); do
        emq help --man $verb >page.1
        run mandoc -Tlint -Wwarning page.1
        [ "$status" = 0 ] || { echo "emq help --man $verb: $output" >&2; return 1; }
    done
}

@test "a read-only file is refused for an unprivileged user, and nothing is lost" {
    [ "$(id -u)" = 0 ] || skip "the test drops privileges and starts as root"
    emq add q x >/dev/null
    chmod 711 "$BOX"
    chmod 444 queue.db*
    chmod 755 "$BOX"
    run --separate-stderr setpriv --reuid=65534 --regid=65534 --clear-groups "$(command -v emq)" add q y --url "$EMQ_URL"
    [ "$status" -eq 77 ]
    chmod 600 queue.db*
    [ "$(emq stats q --json | jq .waiting)" = 1 ]
}
