#!/usr/bin/env bats
# Odd ways to call it: empty values, closed streams, readers that go away.
load common

@test "an empty value, as of a variable that is not set, is refused" {
    without_server
    local option
    for option in --id --dedup --group --name --batch --prefix --url; do
        expect 64 emq add q x "$option" ""
        says "$option: the value is empty"
    done
    expect 64 emq add q x --id=
    expect 64 emq settle q 1 --token "" --failed x
    expect 64 emq work q --name "" -- true
    expect 64 emq work q -- ""
    expect 64 emq add q @
    says '"@" names no file'
    [ -z "$(emq ls)" ]
}

@test "data, results and reasons may be empty" {
    emq add q "" >/dev/null
    local token
    token=$(emq take q --json | jq -r .token)
    expect 0 emq edit q 1 --data ""
    expect 0 emq settle q 1 --token "$token" --failed "" --stack ""
    [ "$(emq show q 1 --json | jq -r '.state, .data')" = "$(printf 'failed\n')" ]
}

@test "without a verb the message says so" {
    expect 64 emq --json
    says "the verb is missing"
}

@test "closed standard streams are never mistaken for a file of the store" {
    emq add q kept >/dev/null
    expect 66 bash -c 'emq add q - <&-'
    expect 66 bash -c 'emq add q --batch - <&-'
    run bash -c 'emq show q none 2>&-'
    [ "$status" -eq 1 ]
    run bash -c 'emq add q second >&- 2>/dev/null'
    [ "$status" -eq 74 ]
    [ "$(emq ls q | wc -l)" -eq 2 ]
    expect 0 bash -c 'emq work q --exit-when-empty --verbose -- cat <&- 2>&- >&-'
    expect 0 emq stats q
    [ -z "$stderr" ]
    [ -n "${EMQ_TEST_SERVER:-}" ] || [ "$(head -c 8 queue.db-emq)" = EMQBELL1 ]
}

@test "a reader that goes away ends the program silently and soon" {
    seq 3000 | sed 's/.*/{"text":"&"}/' | emq add q --batch - >/dev/null
    run bash -c 'emq ls q 2>err | head -1; echo "${PIPESTATUS[0]}"'
    [ "${lines[1]}" -eq 141 ]
    [ ! -s err ]
    run timeout 20 bash -c 'emq tail q --all --json 2>err | head -1 >/dev/null; echo "${PIPESTATUS[0]}"'
    [ "$status" -eq 0 ]
    [ ! -s err ]
}

@test "a wait of 0 does not wait" {
    expect 1 timeout 20 emq take q --wait 0
    expect 124 timeout 20 emq add q x --wait 0
    local token
    token=$(emq take q --json | jq -r .token)
    expect 0 emq settle q 1 --token "$token" --retry 0 --failed again
    [ "$(emq show q 1 --json | jq -r .state)" = waiting ]
}

@test "a grace of 0 stops running programs at once" {
    emq add q x >/dev/null
    emq work q --grace 0 --quiet -- sh -c 'touch up; exec sleep 60' &
    until_true test -e up
    kill -TERM $!
    local start=$SECONDS
    wait $! || :
    [ $((SECONDS - start)) -lt 20 ]
    [ "$(emq show q 1 --json | jq -r '.state, .attemptsMade' | tr '\n' ' ')" = "waiting 0 " ]
}

@test "logs --last counts lines, however they were written" {
    emq add q x >/dev/null
    emq work q --exit-when-empty --quiet -- sh -c 'seq 1 5000 >&2'
    [ "$(emq logs q 1 --last 3 | tr '\n' ' ')" = "4998 4999 5000 " ]
    [ "$(emq logs q 1 --last 2 --json | jq -r . | wc -l)" -eq 2 ]
    [ "$(emq logs q 1 | wc -l)" -eq 5000 ]
}

@test "a batch may begin with a byte order mark and end lines as Windows does" {
    printf '\xef\xbb\xbf{"text":"a"}\r\n\r\n{"text":"b"}\r\n' >batch
    expect 0 emq add q --batch batch
    [ "$output" = 2 ]
}

@test "whatever fails in run itself is 125" {
    expect 125 emq run q --no-such-option -- true
    expect 125 emq run "" -- true
    expect 125 emq run q -- ""
    expect 125 emq --url nonsense:x run q -- true
    expect 0 emq run --help
}

@test "a program finds the store wherever it goes" {
    mkdir "far 100%"
    local url
    for url in ./rel.db "sqlite:rel%20two.db?sync=off" "sqlite::memory:"; do
        (cd "far 100%" && export EMQ_URL=$url &&
            emq add q x >/dev/null &&
            emq work q --exit-when-empty --quiet -- sh -c 'cd / && echo "$EMQ_URL" && emq add q2 child >&2' &&
            echo "$url" && emq ls --json)
    done >seen
    [ ! -e /rel.db ]
    [ "$(grep -c '"queue":"q2"' seen)" -eq 2 ]
    [ -e "far 100%/rel two.db" ]
}

@test "a hangup drains as TERM does, unless nohup has it ignored" {
    emq add q x >/dev/null
    env --default-signal=HUP emq work q --quiet -- sh -c 'touch up; until [ -e go ]; do sleep 0.05; done; echo done' &
    until_true test -e up
    kill -HUP $!
    touch go
    wait $!
    [ "$(emq show q 1 --result)" = done ]
    rm up go
    emq add q y >/dev/null
    nohup emq work q --quiet --max-jobs 2 -- sh -c 'touch up; until [ -e go ]; do sleep 0.05; done; cat' &
    until_true test -e up
    kill -HUP $!
    touch go
    emq add q z >/dev/null
    wait $!
    [ "$(emq show q 3 --result)" = z ]
}

@test "a batch refuses options of one job by name, and nothing is added" {
    without_server
    echo '{"data":1}' >batch
    local option
    for option in --delay=1h --priority=1 --attempts=2 --id=a --dedup=d --dedup-ttl=1s --dedup-mode=extend \
        --timeout=1s --name=n --group=g --lifo --keep-completed=1 --keep-failed=1 --keep-logs=1 --backoff=none; do
        expect 64 emq add q --batch batch "$option"
        says "${option%%=*} is per job: put it in the lines of the batch"
    done
    expect 64 emq add q --batch batch --wait
    says "--wait and --batch exclude each other"
    [ -z "$(emq ls)" ]
    expect 0 emq add q --batch batch --must-add --json --quiet
}

@test "empty input is data of 0 bytes, and only missing data is {}" {
    : >empty
    emq add q @empty >/dev/null
    emq add q - </dev/null >/dev/null
    echo '{"text":""}' | emq add q --batch - --quiet
    emq add q >/dev/null
    [ "$(emq work q --exit-when-empty --quiet -- wc -c; for i in 1 2 3 4; do emq show q $i --json | jq -r .returnvalue; done | xargs)" = "0 0 0 2" ]
}

@test "what was done is told when its result can't be written" {
    expect 74 bash -c 'emq add q x >/dev/full'
    says "job 1 was added, but"
    expect 74 bash -c 'emq take q --name hand >/dev/full'
    says "job 1 was taken by worker hand"
    token=$(sed -nE 's/.*, token ([^ ,]+),.*/\1/p' <<<"$stderr")
    expect 0 emq settle q 1 --token "$token" --completed
    expect 74 bash -c 'echo "{}" | emq add q --batch - >&-'
    says "1 job was added, but"
    expect 74 bash -c 'emq work q --exit-when-empty --json -- true >/dev/full'
    says "completed: 1, failed: 0"
    emq add q y >/dev/null
    expect 125 bash -c 'emq run q --json -- true >/dev/full'
    says "completed: 1, failed: 0"
}

@test "a program's emq addresses its own job whatever the URL's prefix says" {
    export EMQ_URL="$EMQ_URL?prefix=zz"
    emq add q x --prefix yy >/dev/null
    expect 0 emq work q --prefix yy --exit-when-empty --quiet -- sh -c 'emq edit "$EMQ_QUEUE" "$EMQ_JOB_ID" --progress 7'
    [ "$(emq show q 1 --prefix yy --json | jq .progress)" = 7 ]
    [ "$(EMQ_PREFIX=yy emq show q 1 --json | jq -r .state)" = completed ]
    expect 1 emq show q 1
    expect 1 env EMQ_PREFIX=yy emq show q 1 --prefix zz
}

@test "the URL that a program gets opens its worker's queues, whatever their prefix came from" {
    local prefix url server="$EMQ_URL"
    for url in "$server" "$server?prefix=zz" "${EMQ_TEST_SERVER:-$BOX/a 100%?b.db}"; do
        for prefix in yy "a:{b}&c=d %"; do
            export EMQ_URL=$url
            emq add q x --prefix "$prefix" >id
            expect 0 emq work q --prefix "$prefix" --exit-when-empty --quiet -- sh -c \
                'unset EMQ_PREFIX; cd /; emq edit "$EMQ_QUEUE" "$EMQ_JOB_ID" --token "$EMQ_TOKEN" --progress 7'
            [ "$(emq show q "$(cat id)" --prefix "$prefix" --json | jq .progress)" = 7 ]
        done
    done
}

@test "a paused queue ends --exit-when-empty, and the jobs that stay are told" {
    emq add q x >/dev/null
    emq pause q
    expect 0 timeout 60 emq work q --exit-when-empty -- cat
    says "q is paused: 1 job stays"
    emq add q y >/dev/null
    expect 0 timeout 60 emq work q --exit-when-empty -- cat
    says "q is paused: 2 jobs stay"
}

@test "a worker that was told to end does not speak of paused queues" {
    emq add q x >/dev/null
    emq add q y >/dev/null
    expect 0 emq work q --exit-when-empty --max-jobs 1 -- sh -c 'emq pause q'
    [[ $stderr != *paused* ]]
    emq resume q
    emq work q --exit-when-empty -- sh -c 'emq pause q; touch up; until [ -e go ]; do sleep 0.05; done' 2>talk &
    until_true test -e up
    emq add q z >/dev/null
    kill -TERM $!
    until_true grep -q draining talk
    touch go
    wait $!
    ! grep paused talk
}

@test "help of add names every key of a batch, and each is read" {
    without_server
    local key
    emq help add >text
    for key in group delay timeout timestamp priority attempts lifo backoff dedup dedupTtl dedupMode \
        keepCompleted keepFailed keepLogs; do
        grep -qw "$key" text || { echo "$key" >&2; return 1; }
        expect 0 bash -c "echo '{\"$key\":null}' | emq add q --batch -"
    done
}
