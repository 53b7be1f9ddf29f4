#!/usr/bin/env bats
load common

@test "take, extend and settle work by hand with a token" {
    id=$(emq add q payload)
    expect 0 emq take q --json
    token=$(field .token)
    [ "$(field .id)" = "$id" ]
    [ "$(field .fence)" -gt 0 ]
    expect 0 emq extend q "$id" --token "$token" --lock 1m
    expect 0 emq settle q "$id" --token "$token" --completed '{"ok":1}'
    [ "$(emq show q "$id" --json | jq .returnvalue.ok)" = 1 ]
}

@test "no job is 1, and --wait waits for one" {
    expect 1 emq take q --json
    expect 1 emq take q --wait 50ms
    emq take q --wait 30s --json >got &
    emq add q x >/dev/null
    wait %1
    [ "$(jq -r .id got)" = 1 ]
}

@test "a foreign or late token changes nothing and exits 1" {
    id=$(emq add q x)
    token=$(emq take q --json | jq -r .token)
    expect 1 emq settle q "$id" --token other:1 --completed
    says "nothing was changed"
    expect 1 emq extend q "$id" --token other:1
    expect 0 emq settle q "$id" --token "$token" --completed
    expect 1 emq settle q "$id" --token "$token" --failed late
    [ "$(emq show q "$id" --json | jq -r .state)" = completed ]
}

@test "settle without a token names the owner; --force overrules it" {
    id=$(emq add q x)
    token=$(emq take q --name alice --json | jq -r .token)
    expect 1 emq settle q "$id" --failed broken
    says alice
    expect 0 emq settle q "$id" --failed broken --force
    [ "$(emq show q "$id" --json | jq -r .failedReason)" = broken ]
    expect 1 emq settle q "$id" --token "$token" --completed
}

@test "retry charges an attempt, release charges nothing" {
    id=$(emq add q x --attempts 3 --backoff none)
    token=$(emq take q --json | jq -r .token)
    expect 0 emq settle q "$id" --token "$token" --retry 1h
    [ "$(emq show q "$id" --json | jq -r '.state,.attemptsMade' | tr '\n' ' ')" = "delayed 1 " ]
    emq promote q "$id"
    token=$(emq take q --json | jq -r .token)
    expect 0 emq settle q "$id" --token "$token" --release
    [ "$(emq show q "$id" --json | jq -r '.state,.attemptsMade,.attemptsStarted' | tr '\n' ' ')" = "waiting 1 1 " ]
}

@test "settle says when a job that was to go back did not, and why nothing was settled" {
    for as in --retry --release; do
        emq add q x --id asked$as >/dev/null
        token=$(emq take q --json | jq -r .token)
        emq cancel q asked$as
        expect 0 emq settle q asked$as --token "$token" $as
        says "job asked$as does not go back: it failed: cancelled"
        expect 1 emq settle q asked$as --force --completed
        says "job asked$as is failed: nobody works on it"
    done
    emq add q x --id last --attempts 1 >/dev/null
    token=$(emq take q --json | jq -r .token)
    expect 0 emq settle q last --token "$token" --retry --failed "no luck" --json
    [ "$(jq -r '.id, .outcome, .state' <<<"$output" | xargs)" = "last settled failed" ]
    says "does not go back: it failed: no luck"
    emq add q x --id gone --attempts 1 --keep-failed none >/dev/null
    token=$(emq take q --json | jq -r .token)
    expect 0 emq settle q gone --token "$token" --retry
    says "job gone does not go back: it failed, and was removed by its retention"
    emq add q x --id once >/dev/null
    token=$(emq take q --mode at-most-once --json | jq -r .token)
    expect 1 emq settle q once --token "$token" --release
    says "job once was handed out at-most-once and may not go back"
    expect 0 emq settle q once --token "$token" --completed --json
    [ "$(field .state)" = completed ]
    [ -z "$stderr" ]
}

@test "a taken job whose lock ended is returned by sweep" {
    id=$(emq add q x)
    emq take q --lock 200ms >/dev/null
    until_true sh -c 'emq sweep q --json | grep -q "\"recovered\":1"'
    [ "$(emq show q "$id" --json | jq -r '.state,.stalledCounter' | tr '\n' ' ')" = "waiting 1 " ]
}

@test "ls --worker has the jobs that a name holds, with their tokens" {
    emq add q a >/dev/null
    emq add q b >/dev/null
    emq add p c >/dev/null
    for queue in q q p; do emq take $queue --name ann >/dev/null; done
    emq add q other >/dev/null
    emq take q --name bob >/dev/null
    expect 0 emq ls q --worker ann --json
    [ "$(field .id)" = "$(printf '1\n2')" ]
    expect 0 emq ls q --worker ann --newest --limit 1 --json
    [ "$(field .id)" = 2 ]
    expect 0 emq settle q 2 --token "$(field .token)" --completed
    expect 0 emq ls q --worker ann
    [ "$(wc -l <<<"$output")" -eq 1 ]
    expect 0 emq ls q --worker nobody --state active
    [ -z "$output" ]
    expect 64 emq ls q --worker ann --state waiting
    expect 64 emq ls --worker ann
}

@test "settle wants exactly one outcome" {
    emq add q x >/dev/null
    expect 64 emq settle q 1 --token t
    expect 64 emq settle q 1 --token t --completed --release
    expect 64 emq extend q 1
    expect 1 emq settle q 99 --token t --completed
}
