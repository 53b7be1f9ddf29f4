#!/usr/bin/env bats
# The life of a job, and why it ran more than once.
# shellcheck disable=SC2016 # the programs of workers expand their own variables
load common

on_server() { [ -n "${EMQ_TEST_SERVER:-}" ]; }
redis() { redis-cli -u "$EMQ_TEST_SERVER" "$@"; }
is() { [ "$1" = "$2" ] || { echo "\"$1\" is not \"$2\"" >&2; return 1; }; }
why() { emq why q "$1" --json | jq -r "$2"; }
because() { why "$1" '.because | join("; ")'; }
ends() { why "$1" '[.handouts[].end] | join(" ")'; }
hand_out() { TOKEN=$(emq take q --lock "${1:-30s}" --json | jq -r .token); }
swept() { until_true sh -c 'emq sweep q >/dev/null; [ "$(emq stats q --json | jq .waiting)" = 1 ]'; }

@test "a job that ran once has one hand-out with worker, host, process and fence" {
    emq add q 1 --id a >/dev/null
    emq work q --exit-when-empty -- true
    is "$(why a '.handouts[0] | [.attempt, .end, .host, (.pid > 0), (.fence > 0)] | @csv')" \
        "1,\"completed\",\"$(hostname)\",true,true"
    is "$(why a '[.state, .whole, (.because | length)] | @csv')" '"completed",true,0'
    is "$(why a '[.life[].what] | join(" ")')" "added waiting taken completed"
    expect 0 emq why q a
    [[ $output == *"attempt 1: taken by "*"completed, handed out once"* ]]
}

@test "an attempt that failed is why the next one began" {
    emq add q 1 --id a --backoff fixed:1ms --attempts 2 >/dev/null
    emq work q --exit-when-empty -- sh -c '[ $EMQ_ATTEMPT = 2 ]'
    is "$(ends a)" "retried completed"
    is "$(because a)" "attempt 2 began because attempt 1 failed: exited with 1"
}

@test "a worker that was killed is why the next attempt began" {
    emq add q 1 --id a >/dev/null
    emq work q --lock 500ms -- sleep 60 3>&- &
    until_true sh -c '[ "$(emq stats q --json | jq .active)" = 1 ]'
    kill -9 $!
    swept
    emq work q --exit-when-empty -- true
    is "$(ends a)" "lost completed"
    is "$(because a)" "attempt 2 began because the lock of attempt 1 ended unrenewed: its worker died or lost the store"
}

@test "a worker that was frozen tells for how long when it comes back" {
    emq add q 1 --id a >/dev/null
    emq work q --lock 1s --name frozen -- sleep 60 3>&- 2>err &
    pid=$!
    until_true sh -c '[ "$(emq stats q --json | jq .active)" = 1 ]'
    kill -STOP $pid
    swept
    emq work q --exit-when-empty -- true
    kill -CONT $pid
    until_true sh -c 'emq why q a --json | jq -e ".handouts[0].renewalsStoppedFor"'
    kill -TERM $pid
    is "$(ends a)" "lost completed"
    [[ $(because a) == "attempt 2 began because renewals stopped for "*": the process was frozen, or cut off from the store" ]]
}

@test "a late acknowledgement that was refused is told with its attempt" {
    emq add q 1 --id a >/dev/null
    hand_out 300ms
    swept
    expect 1 emq settle q a --token "$TOKEN" --completed
    hand_out
    emq settle q a --token "$TOKEN" --completed
    is "$(why a '.handouts[0] | [.end, (.refusedAt > 0)] | @csv')" '"lost",true'
    is "$(why a '.life[] | select(.what == "refused") | .attempt')" 1
    [[ $(because a) == *"its worker came back: it was frozen or lost the store" ]]
}

@test "what was given back, and what was asked for again, is told" {
    emq add q 1 --id a >/dev/null
    hand_out
    emq settle q a --token "$TOKEN" --release
    hand_out
    emq settle q a --token "$TOKEN" --completed
    emq retry q a >/dev/null
    hand_out
    is "$(ends a)" "released completed running"
    [[ $(because a) == "attempt 2 began because attempt 1 was given back; attempt 3 began because "*" asked for it after attempt 2 had ended (completed)" ]]
}

@test "why a hand-out was given back is told, if a reason was" {
    emq add q 1 --id a --backoff none >/dev/null
    hand_out
    emq settle q a --token "$TOKEN" --release
    hand_out
    emq settle q a --token "$TOKEN" --release 'the printer is out of paper'
    emq work q --exit-when-empty -- sh -c 'mkdir m 2>/dev/null || exit 0; echo "no answer" >&2; exit 75'
    is "$(because a)" "attempt 2 began because attempt 1 was given back; attempt 3 began because attempt 2 was given back: the printer is out of paper; attempt 4 began because attempt 3 was given back: exited with 75: no answer"
    is "$(why a '[.handouts[].reason] | @csv')" ',"the printer is out of paper","exited with 75: no answer",'
    expect 0 emq why q a
    [[ $output == *": given back, not charged: exited with 75: no answer"* ]]
}

@test "a worker that was stopped is why its jobs were given back" {
    emq add q 1 --id a >/dev/null
    emq work q --grace 1ms -- sh -c 'touch runs; exec sleep 60' 3>&- 2>/dev/null &
    pid=$!
    until_true [ -e runs ]
    kill -TERM $pid
    wait $pid || :
    emq work q --exit-when-empty -- true
    is "$(because a)" "attempt 2 began because attempt 1 was given back: the worker stopped"
}

@test "an at-most-once job whose worker died had failed for good when it was retried by hand" {
    emq add q 1 --id a >/dev/null
    emq take q --mode at-most-once --lock 300ms >/dev/null
    until_true sh -c 'emq sweep q >/dev/null; [ "$(emq stats q --json | jq .failed)" = 1 ]'
    emq retry q a >/dev/null
    hand_out
    is "$(ends a)" "lost running"
    [[ $(because a) == *" asked for it after attempt 1 had ended (failed for good: at-most-once: the worker that took it died)" ]] ||
        { because a >&2; return 1; }
}

@test "a life of which the history has lost a part is not whole, and says so" {
    emq add q 1 --id a --backoff none --attempts 120 >/dev/null
    emq work q --exit-when-empty -- sh -c '[ $EMQ_ATTEMPT = 120 ]'
    is "$(why a '[.whole, (.handouts | length)] | @csv')" false,120
    is "$(why a '[.handouts[] | select(.worker == null)] | length')" 19
    expect 0 emq why q a
    [[ $output == *"who took it is not known of 19 hand-outs: a job's history has its last 100 entries"* ]]
    emq add q 1 --id b >/dev/null
    for i in $(seq 100); do emq edit q b --priority "$i" >/dev/null; done
    is "$(why b .whole)" false
    expect 0 emq why q b
    [[ $output == *"earlier entries of its history may be gone: it has the last 100"* ]]
}

@test "who asked for a job again is told, also when its effect was kept or asked for anew" {
    emq add q 1 --id a >/dev/null
    for how in "" --keep-effect --redo; do
        hand_out
        emq settle q a --token "$TOKEN" --completed
        emq retry q a $how >/dev/null
    done
    hand_out
    is "$(why a '[.because[] | capture(" because .* (?<how>asked for it after.*)$").how] | join("; ")')" \
        "asked for it after attempt 1 had ended (completed); asked for it after attempt 2 had ended (completed); asked for it after attempt 3 had ended (completed)"
}

@test "a settle with a token that no hand-out had is told as that" {
    emq add q 1 --id a >/dev/null
    hand_out
    for token in null nobody:7; do
        expect 1 emq settle q a --token $token --completed
        is "$(why a "[.life[] | select(.what == \"refused\" and .who == \"$token\") | .text, .attempt] | @csv")" \
            "\"settle with the token $token was refused: no hand-out that is known had this token\","
    done
}

@test "a worker that was given a name is told by it alone" {
    emq add q 1 --id a >/dev/null
    emq work q --name here --exit-when-empty -- true
    is "$(why a '.handouts[0] | [.worker, .host, .pid, (.fence > 0)] | @csv')" '"here",,,true'
    expect 0 emq help why
    [[ $output == *"one that was given another with --name is told by that"* ]]
}

@test "what an administrator did to it is told with who" {
    emq add q 1 --id a --delay 1h >/dev/null
    emq promote q a >/dev/null
    hand_out
    emq settle q a --force --completed
    is "$(why a '[.life[] | select(.what == "admin") | .text | sub(" by .*"; "")] | join(" ")')" "promote settle"
    is "$(why a '[.life[] | select(.what == "admin") | .who] | map(length > 0) | all')" true
}

@test "a job that is gone is told by the events that are left" {
    emq add q 1 --id a --keep-completed 0 >/dev/null
    emq work q --exit-when-empty -- true
    expect 1 emq show q a
    is "$(why a '[.state, .handouts[0].end, .handouts[0].worker] | @csv')" '"gone","completed",'
    expect 0 emq why q a
    [[ $output == *"by whom is not known any more"* ]]
}

@test "an id that was used again has the life of its last job" {
    for i in 1 2; do
        emq add q $i --id a >/dev/null
        emq work q --exit-when-empty -- true
        [ $i = 2 ] || emq rm q a >/dev/null
    done
    is "$(why a '.handouts | length')" 1
}

@test "a job that never was is a negative answer" {
    expect 1 emq why q nobody
    says "queue q has no job nobody, and no event of one"
    expect 64 emq why q
}

@test "hand-outs by a worker of BullMQ are told beside ours" {
    on_server || skip "needs a server"
    emq add q 1 --id a --backoff none >/dev/null
    hand_out
    emq settle q a --token "$TOKEN" --retry
    now=$(($(date +%s%3N)))
    redis RPOPLPUSH emq:q:wait emq:q:active
    redis HSET emq:q:a processedOn $now pb nodejs
    redis HINCRBY emq:q:a ats 1
    redis XADD emq:q:events '*' event active jobId a prev waiting
    redis LREM emq:q:active 0 a
    redis HSET emq:q:a finishedOn $now returnvalue null
    redis ZADD emq:q:completed $now a
    redis XADD emq:q:events '*' event completed jobId a returnvalue null prev active
    is "$(why a '.handouts[1] | [.worker, .end, .fence] | @csv')" '"nodejs","completed",'
    is "$(ends a)" "retried completed"
    expect 0 emq why q a
    [[ $output == *"attempt 2: taken by nodejs, a worker of BullMQ"* ]]
}

@test "a hand-out that ended the job keeps its worker, host, process and fence when the job is retried by hand" {
    emq add q 1 --id a >/dev/null
    emq work q --exit-when-empty -- true
    before=$(why a '.handouts[0] | [.worker, .host, .pid, .fence, .end] | @csv')
    emq retry q a >/dev/null
    expect 1 emq work q --exit-when-empty -- sh -c 'exit 65'
    failed=$(why a '.handouts[1] | [.worker, .host, .pid, .fence, .end] | @csv')
    emq retry q a >/dev/null
    is "$(why a '.handouts[0] | [.worker, .host, .pid, .fence, .end] | @csv')" "$before"
    hand_out
    is "$(why a '.handouts[0] | [.worker, .host, .pid, .fence, .end] | @csv')" "$before"
    is "$(why a '.handouts[1] | [.worker, .host, .pid, .fence, .end] | @csv')" "$failed"
    is "$(ends a)" "completed failed running"
    is "$(why a '.handouts[1].reason')" "exited with 65"
    is "$(why a '[.life[].what | select(. == "completed" or . == "failed")] | join(" ")')" "completed failed"
}

@test "a program that was killed is why the next attempt began, not the end of a lock" {
    emq add q 1 --id a >/dev/null
    expect 1 emq work q --exit-when-empty -- sh -c 'mkdir m 2>/dev/null && kill -9 $$; exit 65'
    is "$(ends a)" "killed failed"
    [[ $(because a) == "attempt 2 began because attempt 1 broke off: killed by signal 9 "* ]]
    emq retry q a >/dev/null
    emq work q --exit-when-empty -- true
    is "$(ends a)" "killed failed completed"
    [[ $(because a) == *"; attempt 3 began because "*" asked for it after attempt 2 had ended (failed)" ]]
    is "$(why a '[.life[] | select(.attempt == 1 or .attempt == 2) | "\(.what) \(.attempt)"] | join(", ")')" \
        "taken 1, recovered 1, taken 2"
}

@test "what happened in one millisecond is told in its order" {
    emq add q 1 --id a --backoff none --attempts 20 >/dev/null
    emq work q --exit-when-empty -- sh -c '[ $EMQ_ATTEMPT = 20 ]'
    is "$(why a '[.life[] | select(.attempt) | "\(.what) \(.attempt)"] | join(" ")')" \
        "$(for i in $(seq 19); do printf 'taken %d retried %d ' "$i" "$i"; done)taken 20"
}

@test "an effect is told with who claimed it and that it is done" {
    emq add q 1 --id a >/dev/null
    emq work q --exit-when-empty -- emq effect run charge -- echo paid
    is "$(why a '[.life[] | select(.what == "claimed" or .what == "done") | .text] | join("; ")')" \
        "attempt 1: claimed the effect charge; attempt 1: the effect charge is recorded as done"
    is "$(why a '.life[-1].what')" completed
}

effects_told() { why a '[.life[] | select(.what | IN("claimed", "doubt", "redo", "settled", "done", "admin")) | .text] | join("; ")'; }
leaves_a_doubt() {
    emq add q 1 --id a >/dev/null
    expect 1 emq work q --exit-when-empty -- sh -c 'emq effect run charge -- sh -c "kill -9 \$\$"; exit 65'
    emq retry q a >/dev/null
}

@test "an effect in doubt is told, and as what an administrator settled it" {
    leaves_a_doubt
    expect 1 emq work q --exit-when-empty -- emq effect run charge --policy park -- true
    emq effect resolve q a charge --done MYRES
    [[ $(effects_told) == "retry by "*"; attempt 2: the effect charge is in doubt: attempt 1 claimed it and did not say how it ended; the effect charge was settled as done by "*": MYRES" ]] ||
        { effects_told >&2; return 1; }
}

@test "a doubt that was done again, and an effect that was forgotten, are told so" {
    leaves_a_doubt
    emq work q --exit-when-empty -- emq effect run charge --policy redo -- true
    [[ $(effects_told) == "retry by "*"; attempt 2: the effect charge is in doubt: attempt 1 "*"; attempt 2: took over the effect charge, in doubt since attempt 1, to do it again; attempt 2: the effect charge is recorded as done" ]] ||
        { effects_told >&2; return 1; }
    emq effect resolve q a charge --forget
    [[ $(effects_told) == *"; the effect charge was settled as not done by "* ]] || { effects_told >&2; return 1; }
}

counted_as_done() {
    leaves_a_doubt
    emq work q --exit-when-empty -- emq effect run charge "$@" -- touch done-again
    [ ! -e done-again ]
    [[ $(effects_told) == *"; attempt 2: took over the effect charge, in doubt since attempt 1, to record it as done without doing it again; attempt 2: the effect charge is recorded as done" ]] ||
        { effects_told >&2; return 1; }
}

@test "a doubt that was skipped is not told as done again" {
    counted_as_done --policy skip
}

@test "a doubt of which a probe said that it happened is not told as done again" {
    counted_as_done --probe true
}

guest_takes() {
    redis RPOPLPUSH emq:q:wait emq:q:active
    redis HSET emq:q:a processedOn "$(($(date +%s%3N)))" pb nodejs ats "$1"
    redis XADD emq:q:events '*' event active jobId a prev waiting
}

@test "a hand-out by a worker of BullMQ without a name is not told as one by the worker before it" {
    on_server || skip "needs a server"
    emq add q 1 --id a --backoff none >/dev/null
    emq work q --max-jobs 1 -- sh -c 'exit 3' || :
    first=$(why a '.handouts[0] | [.worker, .fence, .end] | @csv')
    redis RPOPLPUSH emq:q:wait emq:q:active
    redis HSET emq:q:a processedOn "$(($(date +%s%3N)))" ats 2
    redis SET emq:q:a:lock 0b5c PX 60000
    redis XADD emq:q:events '*' event active jobId a prev waiting
    told() {
        is "$(why a '.handouts[0] | [.worker, .fence, .end] | @csv')" "$first"
        is "$(why a '.handouts[1] | [.worker, .host, .pid, .fence] | @csv')" ",,,"
        is "$(why a '.whole')" false
        is "$(emq show q a --json | jq -r .processedBy)" null
        expect 0 emq why q a
        [[ $output == *"attempt 2: taken by a worker of BullMQ without a name"*"who took it is not known of 1 hand-out:"* ]] ||
            { echo "$output" >&2; return 1; }
    }
    told
    expect 0 emq show q a
    [[ $output == *"held by a worker without a name for another "* && $output != *"taken by"* ]]
    expect 1 emq settle q a --completed
    says "job a is owned by a worker without a name"
    redis LREM emq:q:active 0 a
    redis HSET emq:q:a finishedOn "$(($(date +%s%3N)))" returnvalue null
    redis ZADD emq:q:completed 1 a
    redis XADD emq:q:events '*' event completed jobId a returnvalue null prev active
    told
}

@test "an attempt of a BullMQ worker that died or failed is told with its number and its error" {
    on_server || skip "needs a server"
    emq add q 1 --id a --backoff none >/dev/null
    guest_takes 1
    redis HSET emq:q:a stacktrace '["Error: boom\n    at x.js:1"]' failedReason boom atm 1
    redis LREM emq:q:active 0 a
    redis RPUSH emq:q:wait a
    redis XADD emq:q:events '*' event waiting jobId a prev active
    guest_takes 2
    until_true sh -c 'emq sweep q >/dev/null; [ "$(emq stats q --json | jq .waiting)" = 1 ]'
    hand_out
    is "$(ends a)" "retried lost running"
    is "$(because a)" "attempt 2 began because attempt 1 failed: boom; attempt 3 began because the lock of attempt 2 ended unrenewed: its worker died or lost the store"
    is "$(why a '.life[] | select(.what == "recovered") | .attempt')" 2
}
