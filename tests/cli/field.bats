# Faults from the field that the command line shows best; tests/field/README.md is the table.
load common

# The sum rule: each job that was added is in exactly one place, or was removed and counted.
audit() {
    local stats ids
    stats=$(emq stats "$1" --json)
    ids=$(emq ls "$1" --json | jq -r .id)
    jq -e '.totals.added == .totals.removed + .waiting + .active + .delayed + .prioritized
        + ."waiting-children" + .completed + .failed' <<<"$stats" >/dev/null ||
        { echo "the sum rule is broken: $stats" >&2; return 1; }
    [ -z "$(sort <<<"$ids" | uniq -d)" ] || { echo "a job stands in two places" >&2; return 1; }
    [ "$(grep -c . <<<"$ids")" = "$(jq '.totals.added - .totals.removed' <<<"$stats")" ] ||
        { echo "listed: $(grep -c . <<<"$ids"), $stats" >&2; return 1; }
    [ "$(sqlite3 queue.db 'PRAGMA integrity_check')" = ok ]
}

# All lines of file $1 are ids of jobs of queue q.
all_there() {
    local missing
    missing=$(comm -23 <(sort -u "$1") <(emq ls q --json | jq -r .id | sort -u))
    [ -z "$missing" ] || { echo "acknowledged, but missing: $missing" >&2; return 1; }
}

# A short random time.
moment() { sleep "0.0$((RANDOM % 80 + 10))"; }

# Runs a script with a small file system at $BOX/disk that only it sees.
on_small_disk() {
    mkdir -p disk
    unshare -m true 2>/dev/null || skip "no mount namespace here: run as root"
    export BOX
    export -f audit
    unshare -m bash -euc "mount -t tmpfs -o size=$1 emq-test '$BOX/disk'; cd '$BOX/disk'; $2"
}

state() { emq show q "$1" --json | jq -r .state; }

@test "a producer killed at any moment loses no job whose id it printed" {
    for i in 1 2 3 4; do
        setsid bash -c 'while emq add q job >>ids; do :; done' &
        local group=$!
        until_true test -s ids
        moment
        kill -KILL -- "-$group" || :
        wait "$group" || :
    done 2>/dev/null
    all_there ids
    audit q
}

@test "a program killed while it creates the store leaves one that opens" {
    for i in 1 2 3 4 5; do
        rm -f queue.db queue.db-*
        emq add q "$i" >id 2>/dev/null &
        sleep "0.00$((RANDOM % 9))"
        kill -KILL $! 2>/dev/null || :
        wait $! 2>/dev/null || :
        expect 0 emq add q again
        if [ -s id ]; then emq show q "$(cat id)" >/dev/null; fi
        audit q
    done
}

@test "an interrupted producer leaves whole jobs only" {
    head -c 200000 /dev/urandom >data
    for i in 1 2 3 4 5 6 7 8; do
        emq add q @data >>ids 2>/dev/null &
        sleep "0.00$((RANDOM % 9))"
        kill -INT $! 2>/dev/null || :
        wait $! 2>/dev/null || :
    done
    expect 0 emq add q @data
    all_there ids
    for id in $(emq ls q --json | jq -r .id); do emq show q "$id" --data | cmp - data; done
    audit q
}

@test "a killed batch is there as a whole or not at all" {
    for i in $(seq 1 3000); do echo "{\"data\":$i}"; done >batch
    for i in 1 2 3; do
        emq add q --batch batch >/dev/null 2>&1 &
        moment
        kill -KILL $! 2>/dev/null || :
        wait $! 2>/dev/null || :
        [ $(($(emq stats q --json | jq .totals.added) % 3000)) = 0 ]
    done
    audit q
}

@test "many sweeps at once return each job once" {
    for i in 1 2 3 4 5 6 7 8 9 10; do emq add q "$i" >/dev/null; done
    for i in 1 2 3 4 5 6 7 8 9 10; do emq take q --lock 300ms --json >/dev/null; done
    until_true eval '[ "$(emq show q 10 | grep -c "ended .* ago")" = 1 ]'
    local pids=()
    for i in 1 2 3 4 5 6 7 8; do emq sweep q >/dev/null 2>>errors & pids+=($!); done
    for pid in "${pids[@]}"; do wait "$pid"; done
    [ "$(emq stats q --json | jq -c '[.waiting, .active, .totals.recovered]')" = "[10,0,10]" ]
    [ "$(emq ls q --state waiting --json | jq -r .id | paste -sd' ')" = "1 2 3 4 5 6 7 8 9 10" ]
    [ "$(emq ls q --json | jq -s 'map(.stalledCounter) | unique')" = "[
  1
]" ]
    audit q
}

@test "a dead owner's job says that its owner was not seen and what will return it" {
    emq add q x >/dev/null
    emq work q --lock 300ms -- sleep 60 2>/dev/null &
    local worker=$!
    until_true eval '[ "$(state 1)" = active ]'
    kill -KILL "$worker"
    wait "$worker" 2>/dev/null || :
    until_true eval 'emq show q 1 | grep -q "its owner was not seen since; a sweep returns the job"'
    expect 0 emq sweep q
    [ "$(state 1)" = waiting ]
    audit q
}

@test "a unique job comes back after a crash, and duplicates stay out until it is finished" {
    emq add q x --dedup k >/dev/null
    emq work q --lock 300ms -- sleep 60 2>/dev/null &
    local worker=$!
    until_true eval '[ "$(state 1)" = active ]'
    kill -KILL "$worker"
    wait "$worker" 2>/dev/null || :
    expect 1 emq add q y --dedup k --must-add
    until_true eval 'emq sweep q 2>/dev/null; [ "$(state 1)" = waiting ]'
    expect 1 emq add q y --dedup k --must-add
    expect 0 emq work q --exit-when-empty -- true
    expect 0 emq add q y --dedup k --must-add
    audit q
}

@test "a job given back again and again under kills keeps its id and its data and ends once" {
    cat >again <<'PROGRAM'
#!/bin/sh
echo run >>runs
[ "$(wc -l <runs)" -ge 25 ] && exit 0
echo "retry-after 10ms" >&3
exit 75
PROGRAM
    chmod +x again
    emq add q "the data" --attempts 1 >/dev/null
    for i in 1 2 3 4; do
        emq work q --lock 300ms --stalled-interval 100ms --max-stalled 100 -- ./again 2>/dev/null &
        sleep "0.$((RANDOM % 3 + 1))"
        kill -KILL $! 2>/dev/null || :
        wait $! 2>/dev/null || :
        [ "$(emq stats q --json | jq '.waiting + .active + .delayed + .completed')" = 1 ]
    done
    expect 0 emq work q --lock 300ms --stalled-interval 100ms --max-stalled 100 --exit-when-empty -- ./again
    [ "$(emq show q 1 --data)" = "the data" ]
    [ "$(state 1)" = completed ]
    [ "$(emq show q 1 --json | jq .attemptsMade)" = 1 ]
    audit q
}

@test "all bytes pass through file, standard input, program and result" {
    local all
    printf -v all '\\x%02x' {0..255}
    { printf "$all$all$all$all"; printf '\0'; } >bytes
    [ "$(wc -c <bytes)" = 1025 ]
    emq add q @bytes >/dev/null
    emq add q - <bytes >/dev/null
    for id in 1 2; do emq show q "$id" --data | cmp - bytes; done
    expect 0 emq work q --exit-when-empty -- cat
    for id in 1 2; do
        emq show q "$id" --result | cmp - bytes
        emq show q "$id" --data | cmp - bytes
        emq show q "$id" --json | jq -r .data | base64 -d | cmp - bytes
        emq show q "$id" --json | jq -r .returnvalue | base64 -d | cmp - bytes
    done
    emq add q @bytes --wait 60s >waited &
    local waiting=$!
    expect 0 emq run q --wait 60s -- cat
    wait "$waiting"
    echo >>bytes # as a line
    cmp waited bytes
    audit q
}

@test "data beyond 16 MiB is refused with its size and the limit, and nothing is added" {
    head -c 16777217 /dev/zero >big
    run --separate-stderr emq add q @big
    [ "$status" -eq 65 ] || [ "$status" -eq 64 ]
    says 16777216
    expect 0 emq stats q --json
    [ "$(field .totals.added)" = 0 ]
    head -c 16777216 /dev/zero | tr '\0' 'a' >limit
    expect 0 emq add q @limit
    emq show q "$output" --data | cmp - limit
}

@test "a full disk refuses with 74, loses nothing, and work goes on once space is free" {
    on_small_disk 4m '
        export EMQ_URL=sqlite:$PWD/queue.db
        head -c 1500000 /dev/zero >ballast
        head -c 60000 /dev/urandom >data
        while emq add q @data >>"$BOX/ids" 2>/dev/null; do :; done
        code=0
        emq add q @data 2>"$BOX/error" || code=$?
        [ $code = 74 ] || { echo "exit $code: $(cat "$BOX/error")" >&2; exit 1; }
        grep -q -i space "$BOX/error"
        rm ballast
        [ "$(wc -l <"$BOX/ids")" = "$(emq stats q --json | jq .totals.added)" ]
        emq work q --exit-when-empty --quiet -- cmp - data
        [ "$(emq stats q --json | jq .completed)" = "$(wc -l <"$BOX/ids")" ]
        emq clean q --state completed --older 0 --quiet
        emq add q @data >/dev/null
        [ "$(emq stats q --json | jq -c "[.waiting, .completed]")" = "[1,0]" ]
        audit q'
}

@test "on a full disk a worker that is to end by itself ends with 74, and its jobs run once there is room" {
    on_small_disk 2m '
        export EMQ_URL=sqlite:$PWD/queue.db
        fill() { dd if=/dev/zero of=ballast bs=64k 2>/dev/null || :; dd if=/dev/zero of=rest bs=1 2>/dev/null || :; }
        empty() { rm ballast rest; }
        emq add q one >/dev/null
        fill
        code=0
        emq work q --lock 500ms --exit-when-empty -- true 2>"$BOX/error" || code=$?
        [ $code = 74 ] || { echo "exit $code: $(cat "$BOX/error")" >&2; exit 1; }
        grep -q "giving up: nothing could be stored for 500ms: the store is full" "$BOX/error"
        empty
        export -f fill
        for ends in --exit-when-empty "--max-jobs 1"; do
            code=0
            emq work q --lock 500ms $ends -- bash -c "fill; head -c 500000 /dev/zero" \
                2>"$BOX/error" || code=$?
            [ $code = 74 ] || { echo "exit $code: $(cat "$BOX/error")" >&2; exit 1; }
            grep -q "giving up: nothing could be stored" "$BOX/error"
            empty
        done
        emq work q --exit-when-empty --stalled-interval 100ms --quiet -- cat
        [ "$(emq stats q --json | jq -c "[.completed, .totals.added]")" = "[1,1]" ]
        audit q'
}

@test "a file system that became read-only refuses with 77 or 74 and loses nothing" {
    on_small_disk 4m '
        export EMQ_URL=sqlite:$PWD/queue.db
        emq add q one >/dev/null
        cd /
        mount -o remount,ro "$OLDPWD"
        code=0
        emq add q two 2>"$BOX/error" || code=$?
        [ $code = 77 ] || [ $code = 74 ] || { echo "exit $code: $(cat "$BOX/error")" >&2; exit 1; }
        grep -q -i "read-only" "$BOX/error"
        mount -o remount,rw "$OLDPWD"
        cd "$OLDPWD"
        [ "$(emq stats q --json | jq .totals.added)" = 1 ]
        emq add q two >/dev/null
        audit q'
}

@test "a job whose owner is gone for long can be failed by force and removed" {
    emq add q x >/dev/null
    emq take q --lock 1h --json >/dev/null
    expect 1 emq rm q 1
    says "being worked on"
    expect 0 emq settle q 1 --failed "its owner is gone" --force
    [ "$(state 1)" = failed ]
    expect 0 emq rm q 1
    audit q
}
