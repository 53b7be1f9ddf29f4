#!/usr/bin/env bats
# Signals of a worker, waiting for an end, where options stand, and what kind of failure gives which exit code.
load common

# Starts `emq work q` in the background with INT as a terminal would send it; its pid is in $worker.
worker=
start_worker() {
    env --default-signal=INT emq work q "$@" 2>talk &
    worker=$!
}

ended() { ! kill -0 "$worker" 2>/dev/null; }

@test "INT drains as TERM does" {
    a=$(emq add q a)
    b=$(emq add q b)
    start_worker -- sh -c 'touch up; while [ ! -e go ]; do sleep 0.05; done'
    until_true test -e up
    kill -INT "$worker"
    until_true grep -q draining talk
    touch go
    wait "$worker"
    [ "$(emq show q "$a" --json | jq -r .state)" = completed ]
    [ "$(emq show q "$b" --json | jq -r '.state,.attemptsStarted' | tr '\n' ' ')" = "waiting 0 " ]
}

@test "a second signal gives the running job back at once, uncharged" {
    id=$(emq add q x)
    start_worker -- sh -c 'touch up; sleep 60'
    until_true test -e up
    kill -TERM "$worker"
    until_true grep -q draining talk
    ! ended
    kill -INT "$worker"
    wait "$worker" || :
    [ "$(emq show q "$id" --json | jq -r '.state,.attemptsMade,.attemptsStarted' | tr '\n' ' ')" = "waiting 0 0 " ]
}

@test "USR1 makes a worker quiet and talkative again" {
    for i in 1 2 3; do emq add q x --attempts 1 >/dev/null; done
    start_worker --concurrency 1 -- sh -c 'touch "up$EMQ_JOB_ID"; while [ ! -e "go$EMQ_JOB_ID" ]; do sleep 0.05; done; exit 65'
    until_true test -e up1
    touch go1
    until_true grep -q "job 1 .* failed" talk
    until_true test -e up2
    kill -USR1 "$worker"
    kill -USR2 "$worker" # the other one has been obeyed when this one has
    until_true sh -c '[ "$(grep -c "^worker" talk)" = 1 ]'
    touch go2
    until_true test -e up3
    kill -USR1 "$worker"
    kill -USR2 "$worker"
    until_true sh -c '[ "$(grep -c "^worker" talk)" = 2 ]'
    touch go3
    until_true grep -q "job 3 .* failed" talk
    kill -TERM "$worker"
    wait "$worker" || :
    [ "$(grep -c "job 2 .* failed" talk)" = 0 ]
}

@test "USR2 writes the state of the worker and its jobs" {
    emq add q x --id the-job >/dev/null
    start_worker --name anna -- sh -c 'touch up; while [ ! -e go ]; do sleep 0.05; done'
    until_true test -e up
    kill -USR2 "$worker"
    until_true grep -q "worker anna" talk
    until_true grep -q "job the-job" talk
    ! ended
    touch go
    until_true sh -c 'emq show q the-job --json | grep -q "\"state\":\"completed\""'
    kill -TERM "$worker"
    wait "$worker"
}

@test "--concurrency 0 is a program for each CPU" {
    local cpus
    cpus=$(nproc)
    for i in $(seq $((cpus + 1))); do emq add q "$i" >/dev/null; done
    start_worker --concurrency 0 -- sh -c 'while [ ! -e go ]; do sleep 0.05; done'
    until_true sh -c "[ \"\$(emq stats q --json | jq .active)\" = $cpus ]"
    [ "$(emq stats q --json | jq .waiting)" = 1 ]
    touch go
    kill -TERM "$worker"
    wait "$worker"
}

@test "exit 75 gives back after the job's backoff, or after what the program asked for" {
    emq add q x --id by-backoff --backoff fixed:1h >/dev/null
    emq add q x --id by-wish --backoff fixed:1h >/dev/null
    expect 0 emq work q --exit-when-empty --max-jobs 2 --quiet -- sh -c \
        '[ "$EMQ_JOB_ID" = by-wish ] && echo "retry-after 10m" >&3; exit 75'
    [ "$(emq show q by-backoff --json | jq -r '.state,.delay,.attemptsMade' | tr '\n' ' ')" = "delayed 3600000 0 " ]
    [ "$(emq show q by-wish --json | jq -r '.state,.delay,.attemptsMade' | tr '\n' ' ')" = "delayed 600000 0 " ]
}

@test "a program that vanishes ends the worker with 78; the job it was for is charged nothing" {
    emq add q x --id first >/dev/null
    emq add q x --id second >/dev/null
    printf '#!/bin/sh\nrm -- "$0"\n' >once
    chmod +x once
    expect 78 emq work q --exit-when-empty -- ./once
    says once
    [ "$(emq show q first --json | jq -r .state)" = completed ]
    [ "$(emq show q second --json | jq -r '.state,.attemptsMade,.attemptsStarted' | tr '\n' ' ')" = "waiting 0 0 " ]
}

@test "wait tells how a job ends: its result, 1, or 124 at the deadline" {
    id=$(emq add q hello)
    expect 124 emq wait q "$id" --timeout 50ms
    says "not finished"
    emq wait q "$id" >result &
    local waiting=$!
    expect 0 emq run q -- sh -c 'tr a-z A-Z'
    wait "$waiting"
    [ "$(cat result)" = HELLO ]
    expect 0 emq wait q "$id" --json
    [ "$(field '.state,.returnvalue' | tr '\n' ' ')" = "completed HELLO " ]
    id=$(emq add q x)
    expect 65 emq run q -- sh -c 'echo broken >&2; exit 65'
    expect 1 emq wait q "$id"
    says broken
    [ -z "$output" ]
    expect 1 emq wait q nobody
    says nobody
    expect 64 emq wait q
    expect 64 emq wait q "$id" --timeout 5
}

@test "globals may stand on either side of the verb" {
    emq add q x >/dev/null
    expect 0 emq --json stats q
    [ "$(field .waiting)" = 1 ]
    expect 0 emq stats --json q
    [ "$(field .waiting)" = 1 ]
    expect 0 emq -q pause q
    [ -z "$stderr" ]
    emq resume q -q
    expect 0 emq -v work q --exit-when-empty -- true
    [[ $stderr == *ready* ]]
    emq add q x >/dev/null
    expect 0 emq work q --quiet --exit-when-empty -- true
    [ -z "$stderr" ]
}

@test "a flag wins over EMQ_URL, and EMQ_URL over the state folder" {
    export XDG_STATE_HOME=$BOX/state
    emq add q by-env >/dev/null
    emq add q by-flag --url "sqlite:$BOX/flag.db" >/dev/null
    [ ! -e "$BOX/state" ]
    [ "$(emq ls q --json | jq -r .data)" = by-env ]
    [ "$(emq ls q --json --url "sqlite:$BOX/flag.db" | jq -r .data)" = by-flag ]
    unset EMQ_URL
    emq add q by-default >/dev/null
    [ "$(emq ls q --json --url "sqlite:$BOX/state/echomq/queue.db" | jq -r .data)" = by-default ]
}

@test "a store that another program holds is 75, and nothing was added" {
    emq add q x >/dev/null
    mkfifo hold
    sqlite3 queue.db <hold >/dev/null &
    local shell=$!
    exec 9>hold
    printf 'BEGIN IMMEDIATE;\n' >&9
    until_true sh -c '! sqlite3 queue.db "BEGIN IMMEDIATE; ROLLBACK" 2>/dev/null'
    expect 75 emq add q y
    exec 9>&-
    wait "$shell"
    [ "$(emq stats q --json | jq .waiting)" = 1 ]
    expect 0 emq add q y
}

@test "a store of a newer version is 78 and left alone" {
    emq add q x >/dev/null
    sqlite3 queue.db 'UPDATE emq_schema SET version = 99'
    expect 78 emq add q y
    says 99
    expect 78 emq ls
    [ "$(sqlite3 queue.db 'SELECT count(*) FROM emq_job')" = 1 ]
}

@test "storage that isn't there, or is no database, is 74; a folder is 64" {
    expect 74 emq stats q --url "sqlite:$BOX/missing/queue.db"
    says missing
    expect 64 emq stats q --url "sqlite:$BOX"
    says folder
    printf 'this is a text of some length, longer than the header of a database by far, really' >text
    expect 74 emq stats q --url "sqlite:$BOX/text"
    [ "$(head -c 14 text)" = "this is a text" ]
}

@test "without a terminal, and with NO_COLOR on one, nothing is coloured" {
    emq add q x --id j >/dev/null
    for verb in ls "ls q" "show q j" "stats q" help version; do
        # shellcheck disable=SC2086
        run emq $verb
        [[ $output != *$'\033'* ]]
        NO_COLOR=1 run script -qec "emq $verb" /dev/null
        [[ $output != *$'\033['* ]]
    done
}

@test "retention is given as a count, an age, or both" {
    emq add q x --id count --keep-completed 1000 --keep-failed all >/dev/null
    emq add q x --id age --keep-completed 7d --keep-failed none >/dev/null
    emq add q x --id both --keep-completed 1000,7d >/dev/null
    [ "$(emq show q count --json | jq -c '[.opts.removeOnComplete.count, .opts.removeOnFail]')" = "[1000,false]" ]
    [ "$(emq show q age --json | jq -c '[.opts.removeOnComplete.age, .opts.removeOnFail]')" = "[604800,true]" ]
    [ "$(emq show q both --json | jq -c .opts.removeOnComplete)" = '{"count":1000,"age":604800}' ]
    for i in 1 2 3; do emq add p x --keep-completed 2 >/dev/null; done
    emq work p --exit-when-empty --quiet -- true
    [ "$(emq stats p --json | jq .completed)" = 2 ]
}

@test "version names the library of the store" {
    expect 0 emq version --json
    [ "$(field .sqlite)" = "$(sqlite3 --version | cut -d' ' -f1)" ]
}
