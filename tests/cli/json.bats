#!/usr/bin/env bats
# Under --json results are JSON on stdout and messages are JSON on stderr, one line each.
load common

# Each line of a text is a JSON value.
json_lines() {
    local line
    while IFS= read -r line; do
        jq . <<<"$line" >/dev/null || { echo "no JSON: $line" >&2; return 1; }
    done <<<"$1"
}

verbs() { emq help --json | jq -r '.verbs[].name'; }

# try VERB ARGUMENTS…: it works, prints something, and only JSON.
try() {
    local verb=$1
    shift
    expect 0 emq "$verb" --json "$@" && [ -n "$output" ] && json_lines "$output" &&
        { [ -z "$stderr" ] || json_lines "$stderr"; }
}

token() { emq take "$1" --json | jq -r .token; }

works() {
    emq add "$1" "data of $1" --id job >/dev/null
    case $1 in
    add) try add q x ;;
    work) try work work --exit-when-empty -- cat ;;
    run) try run run -- cat ;;
    take) try take take ;;
    extend) try extend extend job --token "$(token extend)" ;;
    settle) try settle settle job --token "$(token settle)" --completed ;;
    wait | logs)
        emq work "$1" --exit-when-empty --quiet -- sh -c 'echo said >&2'
        try "$1" "$1" job
        ;;
    ls) try ls && try ls ls ;;
    show | cancel | rm) try "$1" "$1" job ;;
    stats | pause | resume | drain | sweep) try "$1" "$1" ;;
    tail) try tail tail --all --count 1 ;;
    retry)
        emq cancel retry job --quiet
        try retry retry job && try retry retry --all
        ;;
    promote)
        emq add promote x --id late --delay 1h >/dev/null
        try promote promote late
        ;;
    edit) try edit edit job --priority 1 && try edit edit job --data y ;;
    clean) try clean clean --state waiting --older 0 ;;
    obliterate) try obliterate obliterate --force ;;
    dedup)
        emq add dedup x --dedup k >/dev/null
        try dedup show dedup k && try dedup release dedup k
        ;;
    effect) emq effect resolve effect job pay --done x >/dev/null && try effect ls effect ;;
    why) try why why job ;;
    fsck)
        expect 0 emq fsck --json
        [ -z "$output" ] && json_lines "$stderr"
        ;;
    explain) try explain explain ;;
    doctor)
        expect 0 emq add doctor-q 1 --json
        run --separate-stderr emq doctor --json
        [ "$status" -le 1 ] && json_lines "$output"
        ;;
    lab) try lab --mode at-least-once --effect plain --fault kill --point P0 ;;
    help) try help && try help add ;;
    completion) try completion bash ;;
    version) try version ;;
    *) echo "no case for $1" >&2 && return 1 ;;
    esac
}

@test "every verb prints JSON when it works" {
    for verb in $(verbs); do
        works "$verb" || { echo "in $verb" >&2; return 1; }
    done
}

fails() {
    case $1 in
    add) run --separate-stderr emq add --json q x --id 12 ;;
    work) run --separate-stderr emq work --json q --lock 1ms -- true ;;
    run) run --separate-stderr emq run --json q -- ./no-such-program ;;
    take) run --separate-stderr emq take --json empty ;;
    extend) run --separate-stderr emq extend --json q 1 --token t:1 ;;
    settle) run --separate-stderr emq settle --json q 1 --completed ;;
    wait | show | logs) run --separate-stderr emq "$1" --json q none ;;
    ls) run --separate-stderr emq ls --json q --state asleep ;;
    why) run --separate-stderr emq why --json q nobody ;;
    tail) run --separate-stderr emq tail --json q --after yesterday ;;
    retry | promote | cancel | rm | edit | clean) run --separate-stderr emq "$1" --json q ;;
    doctor) run --separate-stderr emq doctor --json q ;;
    explain) run --separate-stderr emq explain --json nothing ;;
    stats | fsck | pause | resume | drain | sweep) run --separate-stderr emq "$1" --json a:b ;;
    lab) run --separate-stderr emq lab --json nothing ;;
    obliterate) run --separate-stderr emq obliterate --json q ;;
    effect) run --separate-stderr emq effect --json show q none ;;
    dedup) run --separate-stderr emq dedup --json show q none ;;
    help | completion) run --separate-stderr emq "$1" --json none ;;
    version) run --separate-stderr emq version --json 1 ;;
    *) echo "no case for $1" >&2 && return 1 ;;
    esac
}

@test "every verb says in JSON why it failed" {
    emq add q x >/dev/null
    for verb in $(verbs); do
        fails "$verb"
        { [ "$status" -ne 0 ] && [ -z "$output" ] && json_lines "$stderr" &&
            jq -e --arg verb "$verb" --argjson exit "$status" \
                '.verb == $verb and (.exit == $exit and .error or .note)' <<<"$stderr"; } ||
            { echo "$verb: exit $status, stdout: $output, stderr: $stderr" >&2; return 1; }
    done
}

@test "a failure of the library has its status, and no message is plain under --json" {
    expect 64 emq stats a:b --json
    [ "$(field .status "$stderr")" = E_INVALID ]
    expect 1 emq extend q 1 --token t:1 --json
    [ "$(field .exit "$stderr")" = 1 ]
    expect 64 emq --json
    [[ $(field .error "$stderr") == *verb* ]]
    expect 64 emq frobnicate --json
    [[ $(field .error "$stderr") == *frobnicate* ]]
    expect 64 emq add q --frobnicate --json
    [[ $(field .error "$stderr") == *frobnicate* ]]
    expect 125 emq run q --json
    [ "$(field .exit "$stderr")" = 125 ]
    expect 0 emq add q x --name --json
    [ "$output" = 1 ]
}

@test "help and completion say in JSON what they say in text" {
    expect 0 emq help --json
    [ "$(field '.verbs | length')" = "$(emq help | grep -cE '^  [a-z]+ ')" ]
    [ "$(field '.verbs[] | select(.name == "add").synopsis')" = "$(emq help add | sed -n '1s/^usage: //p')" ]
    expect 0 emq help take --json
    [ "$(field '.options[] | select(.name == "--mode").choices | length')" = 3 ]
    [ "$(field '.options[] | select(.name == "--wait").valueOptional')" = true ]
    [ "$(field '.globalOptions[] | select(.name == "--quiet").letter')" = q ]
    expect 0 emq take --help --json
    [ "$(field .name)" = take ]
    expect 0 emq --version --json
    [ "$(field .version)" = "$(emq version --json | jq -r .version)" ]
    expect 0 emq completion bash --json
    [ "$(field .script)" = "$(emq completion bash)" ]
    expect 64 emq help --man --json
}
