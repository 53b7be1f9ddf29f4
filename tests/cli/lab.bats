#!/usr/bin/env bats
# The crash lab: its answers, and that it leaves nothing behind. The whole matrix is a test of meson's (suite lab).
# shellcheck disable=SC2016 # handlers expand their own variables
load common

lab() { TMPDIR=$BOX emq lab "$@"; }
lines() { wc -l <"$1" | tr -d ' '; }
# What is left of a run: nothing but what the test made itself.
nothing_left() { ! compgen -G "$BOX/emq-lab-*" >/dev/null || { ls "$BOX" >&2; return 1; }; }

# The lab in the background ends with the exit of a signal, of which it says no more than its name.
stopped_by() { # CODE NAME
    local code=0
    wait $! || code=$?
    [ "$code" = "$1" ] || { echo "$code" >&2; return 1; }
    [ "$(grep -v 'EMQ_URL is left alone' err)" = "emq lab: stopped by a signal ($2)" ] || { cat err >&2; return 1; }
}

@test "a cell is one line of JSON with what was seen and what theory expects" {
    expect 0 lab --mode at-least-once --effect plain --point P3 --fault kill --json
    [ "$output" = '{"engine":"sqlite","mode":"at-least-once","effect":"plain","point":"P3","fault":"kill","deliveries":2,"effects":2,"state":"completed","verdict":"duplicate","expected":"duplicate"}' ] || { echo "$output" >&2; return 1; }
    expect 0 lab --mode at-most-once --effect plain --point P1 --fault kill --json
    [ "$(field '[.deliveries, .effects, .state, .verdict] | @csv')" = '1,0,"failed","lost"' ]
    nothing_left
}

@test "a strength shows in the gap: a transaction, an inbox and a key are done once" {
    for effect in transactional inbox key idempotent; do
        expect 0 lab --mode at-least-once --effect "$effect" --point P3 --fault kill --json
        [ "$(field '[.deliveries, .effects, .verdict] | @csv')" = '2,1,"clean"' ] || { echo "$output" >&2; return 1; }
    done
}

@test "the tables have a heading, a row a cell, and a reason; markdown too" {
    expect 0 lab --mode at-least-once --effect marker-park --fault kill
    [[ $output == *"at-least-once, marker-park"* ]]
    [[ $output == *"P2 "*" failed "*"lost: in doubt, and parked for somebody to look"* ]] || { echo "$output" >&2; return 1; }
    [ "$(grep -c '^P[0-5] ' <<<"$output")" = 6 ]
    says "6 cells as theory says, 0 differ"
    expect 0 lab --mode fire-and-forget --effect plain --fault kill --markdown
    grep -qF '| P1 | kill | 1 | gone | **0** |' <<<"$output" || { echo "$output" >&2; return 1; }
}

@test "a cell that differs from theory is said, and the exit is 1" {
    # Somebody else writes into the ledger.
    plant() { dir=$(compgen -G "$BOX/emq-lab-*/0") && echo "done" >>"$dir/effects"; }
    until_true plant 3>&- &
    expect 1 lab --mode at-least-once --effect plain --point P1 --fault kill
    wait
    [[ $output == *"DIFFERS: 2 deliveries, 1 effect, completed"* ]] || { echo "$output" >&2; return 1; }
    says "2 deliveries, 2 effects, completed; theory says 2 deliveries, 1 effect, completed"
}

@test "what strikes nowhere, or nothing, is refused" {
    expect 64 lab --mode fire-and-forget --effect transactional
    says "no such cell"
    expect 64 lab --point P6
    says P6
    expect 64 lab --url redis://127.0.0.1 --server redis-server
    says "exclude each other"
    expect 64 lab --json --markdown
    says "exclude each other"
    expect 64 lab sleep
    says "sleep"
    expect 64 lab soak 3
    expect 64 lab slide -- true
    expect 64 lab handler -- true
    says "--check is missing"
    expect 64 lab handler --check 'echo 1'
    says "the command is missing"
    expect 69 lab --server no-such-server --point P0
    nothing_left
}

@test "an option that a part would not look at is refused" {
    refused() {
        local option=$1
        shift
        expect 64 lab "$@"
        says "does not take $option"
    }
    refused --jobs --jobs 5
    refused --check --check true
    refused --for --for 2s
    refused --kill-every --kill-every 1s
    refused --markdown slide --markdown
    refused --point slide --point P1
    refused --fault slide --fault kill
    refused --effect soak --effect inbox
    refused --parallel soak --parallel 2
    refused --fault handler --fault kill --check 'echo 1' -- true
    nothing_left
}

@test "a store that can't be reached, a URL that is none and a program that can't be started have their exit codes" {
    expect 69 lab --url redis://127.0.0.1:1 --point P0
    [ "$(wc -l <<<"$stderr")" = 1 ] || { echo "$stderr" >&2; return 1; }
    expect 64 lab --url foo://x --point P0
    expect 78 lab handler --check 'echo 1' -- /no/such
    says /no/such
    nothing_left
}

@test "EMQ_URL is left alone, and the lab says so" {
    expect 0 env EMQ_URL=redis://127.0.0.1:1 TMPDIR="$BOX" emq lab --mode at-least-once --effect plain --point P3 --fault kill
    says "EMQ_URL is left alone"
    says "1 cell as theory says"
}

@test "what a killed lab left in its folder the next one removes, and nothing of one that lives" {
    TMPDIR=$BOX emq lab >out 2>err 3>&- &
    until_true compgen -G "$BOX/emq-lab-*/0/queue.db"
    dead=$(compgen -G "$BOX/emq-lab-*")
    expect 0 lab --mode at-least-once --effect plain --point P3 --fault kill
    [ -d "$dead" ]
    kill -9 $!
    wait $! || :
    expect 0 lab --mode at-least-once --effect plain --point P3 --fault kill
    [ ! -e "$dead" ]
}

# Folders in it whose names get too long for what removes them.
too_deep() {
    local half
    half=$(printf '%0200d/' {1..11})
    mkdir -p "$1/$half" "part/$half"
    mv part "$1/$half"
}

@test "a folder that a lab could remove only in part stays marked, and the next one removes it" {
    one() { lab --mode at-least-once --effect plain --point P3 --fault kill; }
    for i in 1 2 3 4 5 6 7 8; do # the order in which a folder is read is anybody's guess
        too_deep "$BOX/emq-lab-left-$i/deep-$i"
        touch "$BOX/emq-lab-left-$i/held"
    done
    expect 0 one
    [ "$(compgen -G "$BOX/emq-lab-left-*/held" | wc -l)" = 8 ] || { ls "$BOX"/emq-lab-left-* >&2; return 1; }
    rm -rf "$BOX"/emq-lab-left-*/deep-*
    expect 0 one
    nothing_left
}

@test "a process of the lab that begins when its lab is dead does nothing" {
    sleep 0 &
    wait $!
    for pid in $! "" x; do
        expect 1 env EMQ_LAB_PID="$pid" emq lab-actor exec -- touch ran
        says "the lab has ended"
        expect 1 env EMQ_LAB_PID="$pid" emq lab-actor pay "$BOX/pay"
    done
    [ ! -e ran ]
}

@test "an interrupt ends it, and nothing stays" {
    TMPDIR=$BOX emq lab >out 2>err &
    until_true compgen -G "$BOX/emq-lab-*/3/queue.db"
    kill -INT $!
    stopped_by 130 Interrupt
    nothing_left
    ! pgrep -f "lab-actor.*dir=$BOX/" || return 1
}

@test "beside a file of jobs it works in a folder of its own, and leaves them alone" {
    emq add mine 1 >/dev/null
    expect 0 emq lab --url "$EMQ_URL" --mode at-least-once --effect transactional --point P3 --fault kill
    nothing_left
    [ "$(emq ls --json | jq -r .queue)" = mine ]
    [ "$(emq stats mine --json | jq '.waiting + .totals.started')" = 1 ]
}

@test "on a given server it works under a prefix of its own, of which nothing stays" {
    server_test() {
        redis-cli -u "$EMQ_TEST_SERVER" set mine 1
        emq lab --url "$EMQ_TEST_SERVER" --mode at-least-once --effect transactional || return
        [ "$(redis-cli -u "$EMQ_TEST_SERVER" keys '*')" = mine ] || return
        emq lab --url "$EMQ_TEST_SERVER" --mode at-least-once --effect transactional --json >json
        [ "$(jq -s 'map(select(.verdict == "not run" and .deliveries == null)) | length' json)" = 2 ]
    }
    export -f server_test
    export TMPDIR=$BOX
    expect 0 "$EMQ_DIR/tests/lib/with_server" redis bash -c server_test
    [[ $output == *"P3 "*"server"*"not run"* ]] || { echo "$output" >&2; return 1; }
    says "2 not run"
}

@test "what a killed lab left on a server goes when its mark has ended, and nothing else" {
    server_test() {
        keys() { redis-cli -u "$EMQ_TEST_SERVER" keys "$1" | sort | paste -sd' '; }
        one() { emq lab --url "$EMQ_TEST_SERVER" --mode at-least-once --effect plain --point P3 --fault kill; }
        living=emq-lab-aaaaaaaaaaaaaaaaaaaa
        for key in $living-alive $living:q0:meta emq-lab-mine mine:emq-lab-x; do
            redis-cli -u "$EMQ_TEST_SERVER" set "$key" 1
        done
        before=$(keys '*')
        emq lab --url "$EMQ_TEST_SERVER" >/dev/null 2>&1 3>&- &
        begun() { [ "$(redis-cli -u "$EMQ_TEST_SERVER" dbsize)" -gt 20 ]; }
        until_true begun || return
        kill -9 $!
        wait $! || :
        mark=$(keys 'emq-lab-*-alive' | tr ' ' '\n' | grep -v $living)
        [ "$(redis-cli -u "$EMQ_TEST_SERVER" pttl "$mark")" -gt 1000 ] || return
        one || return
        [ -n "$(keys "${mark%-alive}*")" ] || return
        # Those of its processes that have not yet seen that it is dead.
        alone() { [ "$(redis-cli -u "$EMQ_TEST_SERVER" client list | grep -c .)" -eq 1 ]; }
        until_true alone || return
        redis-cli -u "$EMQ_TEST_SERVER" del "$mark"
        one || return
        [ "$(keys '*')" = "$before" ] || { keys '*' >&2; return 1; }
    }
    export -f server_test until_true
    export TMPDIR=$BOX
    expect 0 "$EMQ_DIR/tests/lib/with_server" redis bash -c server_test
}

@test "the slide is a line of the points with a verdict under each" {
    expect 0 lab slide --mode at-most-once
    grep -qE '^P0-+P1-+P2-+P3-+P4-+P5$' <<<"$output" || { echo "$output" >&2; return 1; }
    grep -qE '^clean +lost +lost +clean +clean +clean$' <<<"$output" || { echo "$output" >&2; return 1; }
    expect 0 lab slide --mode fire-and-forget --json
    [ "$(jq -r .verdict <<<"$output" | paste -sd' ')" = 'clean lost lost clean' ]
}

@test "on a terminal the arrow keys move along the line, and q ends it" {
    printf '\033[C' >right
    { sleep_until() { until_true grep -q "$1" screen; }
      sleep_until 'P0: '; cat right; sleep_until 'P1: '; printf q; } 2>/dev/null |
        TMPDIR=$BOX timeout 60 script -qefc "emq lab slide" screen >/dev/null
    grep -q 'P1: 2 deliveries, 1 effect' screen
    nothing_left
}

@test "a soak counts what was lost and what came twice, beside what was predicted" {
    expect 0 lab soak --jobs 60 --kill-every 50ms --json
    [ "$(jq -r .mode <<<"$output" | paste -sd' ')" = 'at-least-once at-most-once fire-and-forget' ]
    jq -e -s 'all(.jobs == 60 and .lost == .expectedLost and .duplicates == .expectedDuplicates)' <<<"$output"
    jq -e -s '(map(.kills) | add) > 2 and .[0].lost == 0 and .[1].duplicates == 0' <<<"$output"
    jq -e -s 'all(.looks >= 2 and .findings == 0)' <<<"$output"
    nothing_left
}

@test "a soak for a time keeps jobs in line, and ends" {
    expect 0 lab soak --mode at-least-once --jobs 20 --for 2s --json
    jq -e '.jobs > 20 and .lost == 0 and .findings == 0' <<<"$output"
    expect 64 lab soak --for 5
    says 5
}

@test "a soak says what fsck has found, and the exit is 1" {
    # Somebody else writes into the queue.
    plant() {
        db=$(compgen -G "$BOX/emq-lab-*/0/queue.db") &&
            [ "$(sqlite3 "$db" 'UPDATE emq_queue SET n_failed = n_failed + 5; SELECT changes()' 2>/dev/null)" = 1 ]
    }
    until_true plant 3>&- &
    expect 1 lab soak --mode at-least-once --jobs 200
    wait $!
    says "emq fsck has found"
    says "n_failed says 5, it should be 0 (counter)"
}

@test "a handler that appends does its effect twice, and the lab says where" {
    touch ledger
    expect 1 lab handler -- sh -c 'echo x >>ledger' --check 'wc -l <ledger'
    grep -qE '^P3 +2 +2 completed duplicate' <<<"$output" || { echo "$output" >&2; return 1; }
    grep -qE '^P1 +2 +1 completed clean' <<<"$output" || { echo "$output" >&2; return 1; }
    says "after the program, before the acknowledgement: its effect happens twice"
}

@test "a handler whose effect is kept once by its key is clean at each point" {
    mkdir "done"
    expect 0 lab handler '{"to":"ann"}' --check 'ls done | wc -l' --json -- \
        sh -c 'grep -q ann && touch "done/$EMQ_IDEMPOTENCY_KEY"'
    [ "$(jq -r 'select(.verdict == "clean" and .effects == 1) | .point' <<<"$output" | paste -sd' ')" = 'P0 P1 P2 P2-P3 P3 P4 P5' ] ||
        { echo "$output" >&2; return 1; }
}

@test "a handler that is stopped says that it was, once, and nothing else" {
    touch ledger
    for from in ledger begun; do
        rm -f begun
        TMPDIR=$BOX emq lab handler --check "touch ledger begun; wc -l <ledger" -- \
            sh -c 'echo x >>ledger; sleep 1' >out 2>err 3>&- &
        until_true test -e begun
        [ $from = begun ] || until_true compgen -G "$BOX/emq-lab-*/2/queue.db"
        kill -TERM $!
        stopped_by 143 Terminated
    done
}

@test "a lab that is killed takes the worker of a handler along, and its program" {
    program() { pgrep -f "$BOX/handler" >/dev/null; }
    gone() { ! program; }
    printf '#!/bin/sh\ntouch "%s/begun"\nexec sleep 100\n' "$BOX" >handler
    chmod +x handler
    for signal in KILL TERM; do
        rm -f begun
        TMPDIR=$BOX emq lab handler --check "echo 1" -- "$BOX/handler" >out 2>err 3>&- &
        until_true test -e begun
        program
        kill -$signal $!
        wait $! || :
        until_true gone
    done
}

@test "a lab that is stopped while its servers start says only that" {
    printf '#!/bin/sh\ntouch "%s/started"\nexec sleep 60\n' "$BOX" >server
    chmod +x server
    TMPDIR=$BOX emq lab --server "$BOX/server" >out 2>err 3>&- &
    until_true test -e started
    kill -INT $!
    stopped_by 130 Interrupt
    nothing_left
    printf '#!/bin/sh\necho "no room"\nexit 3\n' >server
    expect 69 lab --server "$BOX/server"
    [ "$stderr" = "emq lab: $BOX/server did not start (status 3): no room" ] || { echo "$stderr" >&2; return 1; }
}

@test "an effect that overwrites the one before is measured by a check that removes what it has counted" {
    check='n=$(cat effect 2>/dev/null | wc -l)'
    program='echo x >new.$$ && mv new.$$ effect'
    expect 75 lab handler --check "$check; echo \$n" -- sh -c "$program"
    says "the check printed 1 before and 1 after another undisturbed run"
    says "let the check remove what it has counted"
    rm effect
    expect 0 lab handler --check "$check; rm -f effect; echo \$n" -- sh -c "$program"
    grep -qE '^P3 +2 +1 completed clean' <<<"$output" || { echo "$output" >&2; return 1; }
}

@test "a handler that can't be measured is said to be so" {
    expect 75 lab handler --check 'echo 1' -- true
    says "it has to grow with the effect"
    expect 75 lab handler --check 'echo many' -- true
    says 'printed "many"'
    expect 75 lab handler --check 'echo 1' -- false
    says "undisturbed the program fails too"
}
