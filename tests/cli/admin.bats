#!/usr/bin/env bats
load common

@test "stats has every state and the fixed JSON shape" {
    emq add q x >/dev/null
    emq add q y --delay 1h >/dev/null
    expect 0 emq stats q --json
    [ "$(field '[.queue,.waiting,.active,.delayed,.prioritized,."waiting-children",.completed,.failed,.paused,.limited_ms,.maxed]|@json')" = '["q",1,0,1,0,0,0,0,false,0,false]' ]
    expect 0 emq stats q
    [[ $output == "q: waiting 1,"* ]]
    expect 0 emq stats never-seen --json
    [ "$(field .waiting)" = 0 ]
}

@test "ls shows queues and jobs" {
    expect 0 emq ls
    says "no queues"
    emq add a x >/dev/null
    emq add b y >/dev/null
    expect 0 emq ls --json
    [ "$(jq -r .queue <<<"$output" | paste -sd' ')" = "a b" ]
    expect 0 emq ls
    [[ ${lines[0]} == QUEUE* ]]
    expect 0 emq ls a --json
    [ "$(field .data)" = x ]
    expect 0 emq ls a --state completed --json
    [ -z "$output" ]
    expect 64 emq ls a --state nowhere
    says nowhere
}

@test "ls walks long lists to the end, each job once" {
    for i in $(seq 1 1700); do echo "{\"data\":$i}"; done | emq add q --batch - --quiet
    [ "$(emq ls q --json | jq -r .id | sort -un | wc -l)" = 1700 ]
    [ "$(emq ls q --limit 3 --json | wc -l)" = 3 ]
    [ "$(emq ls q --newest --limit 1 --json | jq -r .data)" = 1700 ]
}

@test "ls walks past pages that end early because their jobs are long" {
    head -c 5000000 /dev/zero | tr '\0' a >long
    for i in 1 2 3 4; do emq add q @long >/dev/null; done
    [ "$(emq ls q --json | jq -r .id | paste -sd' ')" = "1 2 3 4" ]
}

@test "show tells all of a job; a missing one is 1" {
    emq add q '{"a":1}' --id j --name resize >/dev/null
    expect 0 emq show q j --json
    [ "$(field '[.id,.name,.data.a,.state,.attemptsMade,.attemptsStarted,.stalledCounter,.returnvalue,.failedReason,.progress]|@json')" = '["j","resize",1,"waiting",0,0,0,null,null,0]' ]
    [ "$(field .timestamp)" -gt 0 ]
    expect 0 emq show q j
    [[ $output == *resize* ]]
    expect 1 emq show q nobody
    says nobody
}

@test "show escapes what could drive a terminal" {
    printf '\033[2Jboo\a' | emq add q - --id evil >/dev/null
    expect 0 emq show q evil
    [[ $output != *$'\033'* ]]
    [[ $output == *'\x1b'* ]]
}

@test "pause stops hand-outs, resume starts them" {
    emq add q x >/dev/null
    expect 0 emq pause q
    [ "$(emq stats q --json | jq .paused)" = true ]
    expect 1 emq take q
    expect 0 emq resume q
    expect 0 emq take q --json
}

@test "ls counts the jobs of each queue by state, as stats does" {
    emq add q x >/dev/null
    emq add q x --priority 3 >/dev/null
    emq add q x --priority 4 >/dev/null
    emq add r x --delay 1h >/dev/null
    emq pause r
    expect 0 emq ls
    [ "$(tr -s ' ' <<<"$output" | sed 's/ $//')" = "QUEUE WAITING ACTIVE DELAYED PRIORITIZED WAITING-CHILDREN COMPLETED FAILED PAUSED
q 1 0 0 2 0 0 0
r 0 0 1 0 0 0 0 yes" ]
    expect 0 emq ls --json
    for queue in q r; do
        counts=$(emq stats $queue --json | jq -c '{queue, waiting, active, delayed, prioritized, "waiting-children", completed, failed, paused}')
        grep -qxF "$counts" <<<"$output"
    done
}

@test "retry, promote, rm and cancel work by id, state and all" {
    emq add q x --id d1 --delay 1h >/dev/null
    emq add q x --id d2 --delay 1h >/dev/null
    expect 0 emq promote q d1
    expect 1 emq promote q d1
    says "state"
    expect 0 emq promote q --all
    expect 0 emq cancel q d1 --json
    [ "$(field '[.id,.outcome]|@json')" = '["d1","cancelled"]' ]
    [ "$(emq show q d1 --json | jq -r .failedReason)" = cancelled ]
    expect 0 emq retry q d1
    expect 1 emq retry q d1
    expect 0 emq cancel q --all --json
    [ "$(field .count)" = 2 ]
    expect 0 emq retry q --all --dry-run --json
    [ "$(field .count)" = 2 ]
    [ "$(emq stats q --json | jq .failed)" = 2 ]
    expect 0 emq retry q --state failed --reset-attempts
    [ "$(emq stats q --json | jq .waiting)" = 2 ]
    expect 0 emq rm q d1
    expect 1 emq rm q d1
    expect 0 emq rm q --state waiting
    [ "$(emq stats q --json | jq .waiting)" = 0 ]
    expect 64 emq rm q
    expect 64 emq rm q d1 --all
    expect 64 emq promote q --state completed
    says completed
}

@test "cancel says what it did: asked the owner to stop, or failed the job" {
    emq add q x --id held >/dev/null
    emq take q --quiet >/dev/null
    emq add q x --id waits >/dev/null
    expect 0 emq cancel q held waits --dry-run
    [ "$stderr" = "emq cancel: 1 job would be cancelled
emq cancel: 1 active job would be asked to stop" ]
    expect 0 emq show q held
    [[ $output != *"asked to stop"* ]]
    expect 0 emq cancel q held
    [ "$stderr" = "emq cancel: 1 active job asked to stop" ]
    expect 0 emq show q held
    [[ $output == *"cancel "*"its owner was asked to stop"* ]]
    [ "$(emq show q held --json | jq .cancelRequested)" = true ]
    expect 0 emq cancel q held waits --json
    [ "$(jq -r .outcome <<<"$output" | paste -sd ,)" = "asked to stop,cancelled" ]
    emq add q x >/dev/null
    expect 0 emq cancel q --all --json --dry-run
    [ "$output" = '{"outcome":"cancelled","count":1,"askedToStop":1,"dryRun":true}' ]
    expect 0 emq cancel q --all --json
    [ "$output" = '{"outcome":"cancelled","count":1,"askedToStop":1}' ]
    expect 0 emq cancel q --state active
    [ "$stderr" = "emq cancel: 1 active job asked to stop" ]
    expect 0 emq cancel q --all
    [ "$stderr" = "emq cancel: 1 active job asked to stop" ]
}

@test "rm says which jobs stay: those that are being worked on" {
    for id in a b c; do emq add q x --id "$id" >/dev/null; done
    emq take q --quiet >/dev/null
    emq take q --quiet >/dev/null
    for selection in --all "--state active"; do
        expect 0 emq rm q $selection --dry-run --json
        [ "$(field '.stayed|@json')" = '["a","b"]' ]
        expect 0 emq rm q $selection --dry-run
        says "2 active jobs stay, being worked on: cancel, or wait"
    done
    expect 0 emq rm q --all --verbose
    [ "$stderr" = "emq rm: 1 job removed
emq rm: 2 active jobs stay, being worked on: cancel, or wait: a, b" ]
    expect 0 emq rm q --state active
    [ "$stderr" = "emq rm: 0 jobs removed
emq rm: 2 active jobs stay, being worked on: cancel, or wait" ]
    expect 0 emq rm q --all --json
    [ "$output" = '{"outcome":"removed","count":0,"stayed":["a","b"]}' ]
    expect 0 emq rm q --state failed --json
    [ "$output" = '{"outcome":"removed","count":0,"stayed":[]}' ]
}

@test "a job under a live lock is not removed" {
    emq add q x --id j >/dev/null
    token=$(emq take q --json | jq -r .token)
    expect 1 emq rm q j
    says "worked on"
    expect 0 emq settle q j --token "$token" --completed
    expect 0 emq rm q j
}

@test "what is about a job that is not there names the job and its queue" {
    for what in "show q 77" "show q 77 --data" "logs q 77" "wait q 77" "edit q 77 --progress 1" \
        "edit q 77 --data 1" "edit q 77 --log 1" "edit q 77 --delay 1s" "edit q 77 --priority 3" \
        "settle q 77 --completed" "settle q 77 --token t --completed" "settle q 77 --force --release" \
        "retry q 77" "promote q 77" "cancel q 77" "rm q 77" "rm q 77 --dry-run"; do
        expect 1 emq $what
        says "queue q has no job 77"
    done
    expect 1 emq dedup show q d
    says "no job of queue q holds dedup id d"
    expect 1 emq dedup release q d --owner 77
    says "no job of queue q with the id 77 holds dedup id d"
    expect 1 emq --json edit q 77 --log x
    [ "$(jq -r .status,.error <<<"$stderr" | paste -sd ' ')" = "NOT_FOUND queue q has no job 77" ]
}

@test "edit changes priority, due time and data" {
    emq add q old --id j >/dev/null
    emq add q x --id d --delay 1h >/dev/null
    expect 0 emq edit q j --priority 3
    [ "$(emq show q j --json | jq -r '.state,.priority' | tr '\n' ' ')" = "prioritized 3 " ]
    expect 0 emq edit q j --data new
    [ "$(emq show q j --data)" = new ]
    expect 0 emq edit q d --delay 0
    expect 1 emq edit q j --delay 1h
    expect 1 emq edit q nobody --priority 1
    expect 64 emq edit q j
    expect 64 emq edit q j --priority 9999999
}

@test "edit writes progress, log and data by token, and changes nothing once the lock is lost" {
    emq add q old --id j >/dev/null
    token=$(emq take q --json | jq -r .token)
    expect 0 emq edit q j --token "$token" --progress '{"done":3}'
    expect 0 emq edit q j --token "$token" --log "page 3"
    expect 0 emq edit q j --token "$token" --data new
    emq settle q j --token "$token" --release
    for write in "--progress 9" "--log late" "--data late"; do
        expect 1 emq edit q j --token "$token" $write
        says "the lock of job j is not this token's any more; nothing was changed"
    done
    [ "$(emq show q j --json | jq -c '.progress,.data')" = '{"done":3}
"new"' ]
    [ "$(emq logs q j)" = "page 3" ]
    expect 0 emq edit q j --progress 50
    [ "$(emq show q j --json | jq .progress)" = 50 ]
    expect 65 emq edit q j --progress '{bad'
    says '--progress: "{bad" is not JSON (at byte 1): give a number or any JSON value; nothing was changed'
    expect 65 emq edit q j --progress '{' --token "$token" --json
    expect 64 emq edit q j --token "$token" --priority 1
    expect 64 emq edit q j --log a --progress 1
}

@test "drain, clean and obliterate remove what they say" {
    emq add q a >/dev/null
    emq add q b --delay 1h >/dev/null
    expect 0 emq drain q --json
    [ "$(field .removed)" = 1 ]
    [ "$(emq stats q --json | jq .delayed)" = 1 ]
    expect 0 emq drain q --delayed
    emq add q c >/dev/null
    emq work q --exit-when-empty --quiet -- true
    expect 0 emq clean q --state completed --older 1h --json
    [ "$(field .removed)" = 0 ]
    expect 0 emq clean q --state completed --older 0 --json
    [ "$(field .removed)" = 1 ]
    expect 64 emq clean q --state completed
    expect 1 emq obliterate q
    says paused
    emq pause q
    expect 0 emq obliterate q
    expect 0 emq ls --json
    [ -z "$output" ]
}

@test "a dedup id is shown and released by compare-and-delete" {
    expect 1 emq dedup show q k
    owner=$(emq add q x --dedup k)
    expect 0 emq dedup show q k --json
    [ "$(field .owner)" = "$owner" ]
    expect 1 emq dedup release q k --owner somebody
    expect 0 emq dedup release q k --owner "$owner"
    expect 0 emq add q x --dedup k --must-add
    expect 64 emq dedup forget q k
}

@test "removing a job releases its dedup id" {
    id=$(emq add q x --dedup k --delay 10m)
    emq rm q "$id"
    expect 0 emq add q x --dedup k --must-add
}

@test "tail prints events as they happen" {
    emq add q x --id j >/dev/null
    expect 0 emq tail q --all --wait 0 --json
    [ "$(jq -r .event <<<"$output" | tr '\n' ' ')" = "added waiting " ]
    expect 0 emq tail q --all --count 1 --json
    [ "$(field .jobId)" = j ]
    emq tail q --count 2 --json >got &
    until_true sh -c 'emq add q y >/dev/null; [ "$(wc -l <got)" -ge 2 ]'
    wait %1
}

@test "a tail that ends says where to go on, and nothing falls between two" {
    emq add q x --id j >/dev/null
    expect 0 emq tail q --wait 0
    [ -z "$output" ]
    cursor=${stderr##*--after }
    emq add q y --id k >/dev/null
    expect 0 emq tail q --after "$cursor" --wait 0 --json
    [ "$(jq -r .jobId <<<"$output" | sort -u)" = k ]
}

@test "sweep tells what it recovered" {
    expect 0 emq sweep q --json
    [ "$output" = '{"recovered":0,"failed":0}' ]
}

@test "rm --dry-run says what rm then does: jobs under a living lock stay" {
    emq add q a
    emq add q b
    emq take q --lock 1h >/dev/null
    expect 1 emq rm q 1 --dry-run
    says "it is being worked on"
    expect 1 emq rm q 1
    for selection in "--state active" --all; do
        would=$(emq rm q $selection --dry-run --json | jq .count)
        [ "$(emq rm q $selection --json | jq .count)" -eq "$would" ]
    done
    emq add q c
    emq take q --lock 200ms >/dev/null
    until_true sh -c 'emq show q 3 | grep -q "lock  *ended"'
    [ "$(emq rm q --state active --dry-run --json | jq .count)" -eq 1 ]
    [ "$(emq rm q --state active --json | jq .count)" -eq 1 ]
}
