#!/usr/bin/env bats
load common

@test "add prints the id of the new job" {
    expect 0 emq add mail '{"to":"a"}'
    [ "$output" = 1 ]
    expect 0 emq add mail hello
    [ "$output" = 2 ]
}

@test "add --json tells id, outcome and state" {
    expect 0 emq add mail x --json
    [ "$output" = '{"id":"1","outcome":"added","state":"waiting"}' ]
    expect 0 emq add mail x --json --delay 1h
    [ "$(field .state)" = delayed ]
    expect 0 emq add mail x --json --priority 5
    [ "$(field .state)" = prioritized ]
}

@test "@@ stands for text that begins with one @, wherever @FILE may be given" {
    echo file >text
    expect 0 emq add q @@text --id a
    [ "$(emq show q a --data)" = @text ]
    emq add q @@@ --id b
    [ "$(emq show q b --data)" = @@ ]
    emq edit q b --data @@
    [ "$(emq show q b --data)" = @ ]
    token=$(emq take q --json | jq -r .token)
    emq settle q a --token "$token" --completed @@text
    [ "$(emq show q a --result)" = @text ]
    expect 64 emq add q @
    says "or @@ for text that begins with one @"
}

@test "data of @FILE and of standard input keeps every byte" {
    head -c 4096 /dev/urandom >raw
    printf '\0a\0' >>raw
    expect 0 emq add bin @raw --id from-file
    emq add bin - --id from-stdin <raw
    emq show bin from-file --data >back1
    emq show bin from-stdin --data >back2
    cmp raw back1
    cmp raw back2
}

@test "JSON data is kept byte for byte" {
    expect 0 emq add q '{ "n": 12345678901234567890, "s":"\u0041" }' --id j
    [ "$(emq show q j --data)" = '{ "n": 12345678901234567890, "s":"\u0041" }' ]
}

@test "a custom id is added once; --must-add makes the second one exit 1" {
    expect 0 emq add q x --id nightly
    expect 0 emq add q x --id nightly --json
    [ "$(field .outcome)" = duplicate ]
    expect 1 emq add q x --id nightly --must-add
    [ "$(emq stats q --json | jq .waiting)" = 1 ]
}

@test "a deduplicated add names the job that stands in its way" {
    first=$(emq add q x --dedup k)
    expect 0 emq add q x --dedup k --json
    [ "$(field .outcome)" = deduplicated ]
    [ "$(field .id)" = "$first" ]
    expect 1 emq add q x --dedup k --must-add
    says deduplicated
}

@test "every option ends in the job's own options" {
    expect 0 emq add q x --id o --name resize --attempts 7 --backoff fixed:2s --priority 9 \
        --keep-completed 5,1h --keep-failed none --timeout 30s --keep-logs 10
    run emq show q o --json
    [ "$(field .name)" = resize ]
    [ "$(field .opts.attempts)" = 7 ]
    [ "$(field .opts.backoff.type)" = fixed ]
    [ "$(field .opts.backoff.delay)" = 2000 ]
    [ "$(field .opts.removeOnComplete.count)" = 5 ]
    [ "$(field .opts.removeOnComplete.age)" = 3600 ]
    [ "$(field .opts.kl)" = 10 ]
}

@test "--wait prints the result, 1 when the job failed, 124 at the deadline" {
    expect 124 emq add q x --wait 100ms
    emq drain q
    emq work q --quiet -- cat &
    expect 0 emq add q hello --wait 30s
    [ "$output" = hello ]
    kill %1; wait %1 || :
    emq work q --quiet -- sh -c 'exit 65' &
    expect 1 emq add q hello --wait 30s
    says failed
}

@test "bad options are refused by name, value and range, and nothing is added" {
    without_server
    expect 64 emq add q x --priority 2097152
    says 2097152
    says "0 to 2097151"
    expect 64 emq add q x --priority many
    says many
    expect 64 emq add q x --delay 5
    says unit
    expect 64 emq add q x --delay 200000d
    expect 64 emq add q x --attempts 0
    expect 64 emq add q x --backoff sometimes:1s
    says sometimes
    expect 64 emq add q x --dedup-mode never --dedup k
    expect 64 emq add q x --no-such
    says --no-such
    expect 64 emq add q x --delay
    says "needs a value"
    expect 64 emq add q x --id 42
    says 42
    expect 64 emq add 'a:b' x
    says "a:b"
    expect 64 emq add
    expect 64 emq add q one two
    expect 64 emq add q x --dedup k --dedup-mode extend
    expect 0 emq ls
    [ -z "$output" ]
}

@test "missing, unreadable and wrong input files are told apart" {
    without_server
    expect 66 emq add q @nowhere
    says nowhere
    expect 66 emq add q @"$BOX"
    says directory
    expect 66 emq add q --batch nowhere
    expect 66 emq add q --batch "$BOX"
    truncate -s 17M big
    expect 65 emq add q @big
    says 16777216
}

@test "a batch is added whole and prints its count" {
    for i in $(seq 1 2500); do echo "{\"data\":{\"n\":$i},\"name\":\"n$i\"}"; done >batch
    expect 0 emq add q --batch batch
    [ "$output" = 2500 ]
    expect 0 emq add q --batch - --json <batch
    [ "$output" = '{"added":2500,"duplicate":0,"deduplicated":0}' ]
    [ "$(emq stats q --json | jq .waiting)" = 5000 ]
    [ "$(emq ls q --limit 1 --json | jq -r .name)" = n1 ]
}

@test "one broken line of a batch is named and nothing is added" {
    for i in $(seq 1 100); do echo "{\"data\":$i}"; done >batch
    sed -i '57s/.*/{"data":/' batch
    expect 65 emq add q --batch batch
    says "line 57"
    says "nothing was added"
    sed -i '57s/.*/{"data":1,"prioritty":3}/' batch
    expect 65 emq add q --batch batch
    says "line 57"
    says prioritty
    sed -i '57s/.*/{"data":1,"priority":-3}/' batch
    expect 65 emq add q --batch batch
    says "line 57"
    [ "$(emq stats q --json | jq .waiting)" = 0 ]
}

@test "text that a line of a batch can't mean exactly is refused, data stay as they are" {
    printf '%s\n' '{"text":"a"}' '{"text":"\ud800"}' >batch
    expect 65 emq add q --batch batch
    says 'line 2: "text": "\ud800" is not text: it has half of a surrogate pair'
    says "nothing was added"
    printf '%s\n' '{"data":"\ud800","id":"raw"}' >batch
    expect 0 emq add q --batch batch
    [ "$(emq show q raw --data)" = '"\ud800"' ]
    echo '[1]' >batch
    expect 65 emq add q --batch batch
    says 'line 1: [1] is no JSON object; a line is one, such as {"data":{},"name":"mail"}'
    echo '{"data":1,"priority":1.5}' >batch
    expect 65 emq add q --batch batch
    says 'line 1: "priority": 1.5 is not a whole number within 0..2097151'
    echo '{"data":1,"attempts":0}' >batch
    expect 65 emq add q --batch batch
    says 'line 1: "attempts": 0 is not a whole number within 1..2147483647'
}

@test "an id twice in a batch is one job and told as duplicate" {
    printf '{"id":"x","data":1}\n{"id":"y","data":2}\n{"id":"x","data":3}\n' >batch
    expect 0 emq add q --batch batch --json
    [ "$output" = '{"added":2,"duplicate":1,"deduplicated":0}' ]
    [ "$(emq show q x --data)" = 1 ]
    expect 1 emq add q --batch batch --must-add
}

# Has a batch been staged in part?
staged() {
    if [ -n "${EMQ_TEST_SERVER:-}" ]; then
        redis-cli -u "$EMQ_TEST_SERVER" keys 'emq::emq::stage:*' | grep -qx '[^:]*::[^:]*::[^:]*:[^:]*'
    else
        [ "$(sqlite3 -cmd '.timeout 5000' queue.db 'SELECT count(*) FROM emq_stage' 2>/dev/null)" = 1 ]
    fi
}

@test "a batch that meets the id of a killed one is 75, and does not hold its own ids" {
    { echo '{"id":"x"}'; for i in $(seq 1 50000); do echo "{\"data\":$i}"; done; } >long
    { for i in $(seq 1 1200); do echo "{\"id\":\"y$i\"}"; done; echo '{"id":"x"}'; } >other
    emq add q first >/dev/null
    emq add q --batch long >/dev/null &
    until_true staged
    kill -KILL $!
    wait $! || :
    [ "$(emq stats q --json | jq .waiting)" = 1 ]
    expect 75 emq add q --batch other
    says 'job "x" belongs to a batch that is not published yet'
    [[ $stderr != *"held for"* ]]
    expect 0 emq add q --id y1
}

@test "a batch that is stopped by a signal adds nothing and holds no ids" {
    local sig code
    { echo '{"id":"x"}'; for i in $(seq 1 50000); do echo "{\"data\":$i}"; done; } >long
    emq add q first >/dev/null
    for sig in TERM HUP; do
        emq add q --batch long >out 2>err &
        until_true staged
        kill -$sig $!
        code=0
        wait $! || code=$?
        [ "$code" = $((128 + $(kill -l $sig))) ]
        grep -q 'stopped by a signal; nothing was added' err
        ! staged || false
        [ ! -s out ]
        [ "$(emq stats q --json | jq .waiting)" = 1 ]
    done
    expect 0 emq add q --id x
}

@test "what was obliterated while a long batch was staged is not counted as added" {
    for i in $(seq 1 50000); do echo "{\"data\":$i}"; done >long
    for i in 1 2 3 4 5; do # until it comes before the publication
        emq add q first >/dev/null
        emq add q --batch long >out 2>err &
        until_true staged
        emq obliterate q --force >/dev/null
        wait $!
        ! grep -q "obliterated meanwhile" err || break
    done
    [ "$(cat out)" = "$(emq stats q --json | jq .waiting)" ]
    grep "$((50000 - $(cat out))) not added: their queue was obliterated meanwhile" err
}

@test "what dedup dropped from a long batch is counted, and --must-add is decided by it" {
    { for i in $(seq 1 1200); do echo "{\"data\":$i}"; done; printf '{"dedup":"d"}\n{"dedup":"d"}\n'; } >batch
    expect 1 emq add q --batch batch --must-add --json
    [ "$output" = '{"added":1201,"duplicate":0,"deduplicated":1}' ]
    [ "$(emq stats q --json | jq .waiting)" = 1201 ]
}

@test "a long batch shows a bar on a terminal, and only there" {
    for i in $(seq 1 2500); do echo "{\"data\":$i}"; done >batch
    run script -qec "emq add q --batch batch" /dev/null
    [[ $output == *"adding ["*"] 2500/2500"* ]]
    run script -qec "emq add q --batch batch --quiet" /dev/null
    [[ $output != *adding* ]]
    expect 0 emq add q --batch batch
    [[ $stderr != *adding* ]]
}
