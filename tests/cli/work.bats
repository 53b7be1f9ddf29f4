#!/usr/bin/env bats
load common

@test "work runs every job once and ends when the queue is empty" {
    for i in 1 2 3 4 5; do emq add q "$i" >/dev/null; done
    expect 0 emq work q --exit-when-empty --concurrency 2 -- sh -c 'printf "%s\\n" "$(cat)" >>seen'
    [ "$(sort -n seen | tr '\n' ' ')" = "1 2 3 4 5 " ]
    [ "$(emq stats q --json | jq .completed)" = 5 ]
}

@test "stdin is the data, stdout the result, stderr the log, descriptor 3 the progress" {
    id=$(emq add q payload)
    expect 0 emq work q --exit-when-empty --quiet -- sh -c 'cat; echo note >&2; echo progress 40 >&3; echo "log more" >&3'
    [ "$(emq show q "$id" --result)" = payload ]
    [ "$(emq show q "$id" --json | jq .progress)" = 40 ]
    run emq logs q "$id"
    [[ $output == *note* ]]
    [[ $output == *more* ]]
}

@test "the program sees the job in its environment" {
    id=$(emq add q x --name resize)
    expect 0 emq work q --exit-when-empty --name wk --quiet -- sh -c 'echo "$EMQ_QUEUE $EMQ_JOB_ID $EMQ_JOB_NAME $EMQ_ATTEMPT $EMQ_WORKER $EMQ_PREFIX"; test -n "$EMQ_URL$EMQ_FENCE$EMQ_IDEMPOTENCY_KEY"; test "${EMQ_TOKEN%:*}" = wk'
    [ "$(emq show q "$id" --result)" = "q $id resize 1 wk emq" ]
}

@test "a failing program is retried by the job's backoff, then failed; work exits 1" {
    id=$(emq add q x --attempts 3 --backoff none)
    expect 1 emq work q --exit-when-empty --quiet -- sh -c 'echo run >>runs; echo broken >&2; exit 3'
    [ "$(wc -l <runs)" = 3 ]
    run emq show q "$id" --json
    [ "$(field .state)" = failed ]
    [ "$(field .attemptsMade)" = 3 ]
    [[ $(field .failedReason) == *broken* ]]
}

@test "exit 65 and 100 fail for good, 75 and 111 give back without a charge" {
    a=$(emq add q x --attempts 5)
    expect 1 emq work q --exit-when-empty --quiet -- sh -c 'exit 65'
    [ "$(emq show q "$a" --json | jq -r '.state,.attemptsMade' | tr '\n' ' ')" = "failed 1 " ]
    b=$(emq add p x --attempts 5 --backoff none)
    expect 0 emq work p --exit-when-empty --quiet -- sh -c 'test -e again && exit 0; touch again; exit 75'
    [ "$(emq show p "$b" --json | jq -r '.state,.attemptsMade' | tr '\n' ' ')" = "completed 1 " ]
}

@test "a program that can't be started ends the worker with 78 and charges nothing" {
    id=$(emq add q x)
    expect 78 emq work q --exit-when-empty -- ./no-such-program
    says no-such-program
    [ "$(emq show q "$id" --json | jq -r '.state,.attemptsStarted' | tr '\n' ' ')" = "waiting 0 " ]
}

@test "a program that stops being startable is reported once" {
    emq add q x >/dev/null
    printf '#!/no/such/interpreter\n' >program && chmod +x program
    expect 78 emq work q --exit-when-empty -- ./program
    [ "$(grep -c interpreter <<<"$stderr")" -eq 1 ]
    expect 125 emq run q --quiet -- ./program
    [ "$(grep -c interpreter <<<"$stderr")" -eq 1 ]
}

@test "a recovery is told without an attempt, which nobody counted" {
    emq add q x >/dev/null
    emq take q --lock 200ms >/dev/null
    until_true sh -c 'emq show q 1 | grep -q "lock  *ended"'
    expect 0 emq work q --exit-when-empty -- true
    says "q: job 1 recovered"
}

@test "a worker that is killed loses nothing: another one recovers its job" {
    id=$(emq add q x)
    emq work q --lock 1s --quiet -- sh -c 'echo begun >>runs; sleep 60' &
    until_true test -s runs
    kill -9 %1
    wait %1 || :
    expect 0 emq work q --lock 1s --stalled-interval 300ms --exit-when-empty --quiet -- sh -c 'echo again >>runs'
    [ "$(cat runs | tr '\n' ' ')" = "begun again " ]
    [ "$(emq show q "$id" --json | jq -r '.state,.stalledCounter,.attemptsMade' | tr '\n' ' ')" = "completed 1 1 " ]
}

@test "a program whose worker is killed as it begins has all of its data, or is killed too" {
    head -c 1000000 /dev/zero | emq add q - >/dev/null
    cat >program <<'END'
#!/bin/sh
for pid in $(cat /proc/$PPID/task/*/children); do
    [ "$(cat /proc/$pid/comm)" = emq-supervisor ] && supervisor=$pid
done
kill -STOP "$supervisor"
kill -9 $PPID
wc -c >counted
mv counted count
kill -CONT "$supervisor"
END
    chmod +x program
    emq work q --quiet -- ./program || :
    until_true test -e count
    [ "$(cat count)" -eq 1000000 ]
}

@test "TERM lets the running job finish and takes nothing new" {
    a=$(emq add q a)
    b=$(emq add q b)
    emq work q --quiet -- sh -c 'echo begun >>runs; while [ ! -e go ]; do sleep 0.05; done' &
    until_true test -s runs
    kill -TERM %1
    touch go
    wait %1
    [ "$(emq show q "$a" --json | jq -r .state)" = completed ]
    [ "$(emq show q "$b" --json | jq -r '.state,.attemptsStarted' | tr '\n' ' ')" = "waiting 0 " ]
}

@test "QUIT gives the running job back at once, uncharged" {
    id=$(emq add q x)
    emq work q --quiet -- sh -c 'echo begun >>runs; sleep 60' &
    until_true test -s runs
    kill -QUIT %1
    wait %1 || :
    [ "$(emq show q "$id" --json | jq -r '.state,.attemptsMade,.attemptsStarted' | tr '\n' ' ')" = "waiting 0 0 " ]
}

@test "at-most-once never hands a job out twice: a lost one is visible" {
    id=$(emq add q x)
    emq work q --mode at-most-once --lock 1s --quiet -- sh -c 'echo begun >>runs; sleep 60' &
    until_true test -s runs
    kill -9 %1
    wait %1 || :
    expect 0 emq work q --mode at-most-once --lock 1s --stalled-interval 300ms --exit-when-empty --quiet -- sh -c 'echo again >>runs'
    [ "$(cat runs)" = begun ]
    run emq show q "$id" --json
    [ "$(field .state)" = failed ]
    [[ $(field .failedReason) == *at-most-once* ]]
}

@test "fire-and-forget leaves nothing behind" {
    id=$(emq add q x)
    expect 0 emq work q --mode fire-and-forget --exit-when-empty --quiet -- sh -c 'cat >>seen'
    [ "$(cat seen)" = x ]
    expect 1 emq show q "$id"
}

@test "strict order and weights of several queues" {
    for i in 1 2 3; do emq add low "l$i" >/dev/null; emq add high "h$i" >/dev/null; done
    expect 0 emq work high low --exit-when-empty --quiet -- sh -c 'cat >>seen; echo >>seen'
    [ "$(tr '\n' ' ' <seen)" = "h1 h2 h3 l1 l2 l3 " ]
    expect 64 emq work high=2 low -- true
    expect 64 emq work high=0 -- true
}

@test "a user's cancel stops the running program" {
    id=$(emq add q x)
    emq work q --lock 1s --quiet -- sh -c 'echo begun >>runs; exec sleep 60' &
    until_true test -s runs
    expect 0 emq cancel q "$id"
    until_true sh -c "emq show q $id --json | grep -q '\"state\":\"failed\"'"
    [ "$(emq show q "$id" --json | jq -r .failedReason)" = cancelled ]
}

@test "--timeout ends a program that takes too long; the attempt failed" {
    id=$(emq add q x --attempts 1)
    expect 1 emq work q --timeout 300ms --exit-when-empty --quiet -- sleep 60
    [[ $(emq show q "$id" --json | jq -r .failedReason) == *"timed out"* ]]
}

@test "--stream keeps one program and exchanges JSON lines" {
    for i in 1 2 3; do emq add q "$i" >/dev/null; done
    cat >handler <<'H'
#!/bin/sh
echo start >>starts
while IFS= read -r line; do echo '{"result":"ok"}'; done
H
    chmod +x handler
    expect 0 emq work q --stream --exit-when-empty --quiet -- ./handler
    [ "$(wc -l <starts)" = 1 ]
    [ "$(emq show q 2 --json | jq -r .returnvalue)" = ok ]
}

@test "an empty text of a kept program is a result, no answer is none" {
    local id
    for id in text base64 json null; do emq add q x --id $id >/dev/null; done
    cat >handler <<'H'
#!/bin/sh
while IFS= read -r line; do
    case $(printf '%s' "$line" | jq -r .id) in
    text) echo '{"result":"","resultEncoding":"text"}' ;;
    base64) echo '{"result":"","resultEncoding":"base64"}' ;;
    json) echo '{"result":""}' ;;
    null) echo '{"result":null}' ;;
    esac
done
H
    chmod +x handler
    expect 0 emq work q --stream --exit-when-empty --quiet -- ./handler
    [ "$(for id in text base64 json null; do emq show q $id --json | jq -c .returnvalue; done | xargs -d '\n')" = '"" "" "" null' ]
}

@test "run does one job and exits as the program did" {
    emq add q one >/dev/null
    emq add q two >/dev/null
    expect 0 emq run q -- sh -c 'cat >>seen'
    expect 3 emq run q -- sh -c 'cat >>seen; exit 3'
    [ "$(cat seen)" = onetwo ]
    emq drain q --delayed
    expect 124 emq run q -- true
    expect 124 emq run q --wait 100ms -- true
    emq add q x >/dev/null
    expect 125 emq run q -- ./no-such-program
    expect 125 emq run q
}

@test "bad worker options are refused" {
    without_server
    expect 64 emq work q
    expect 64 emq work -- true
    expect 64 emq work q --lock 100ms -- true
    says "200ms"
    expect 64 emq work q --concurrency -1 -- true
    expect 64 emq work q --mode never -- true
    says at-least-once
    expect 64 emq work 'a:b' -- true
}

@test "run says when the program ended well and its job is not completed" {
    emq add q x
    expect 125 emq run q -- sh -c 'head -c 1100000 /dev/zero | tr "\0" a'
    says "the result has 1100000 bytes"
}
