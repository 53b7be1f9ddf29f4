#!/usr/bin/env bats
# What a store can lose, and what a queue guarantees.
load common

on_server() { [ -n "${EMQ_TEST_SERVER:-}" ]; }
redis() { redis-cli -u "$EMQ_TEST_SERVER" "$@"; }
is() { [ "$1" = "$2" ] || { echo "\"$1\" is not \"$2\"" >&2; return 1; }; }
# Its exit code says whether there is advice; that depends on the machine.
doctor() { emq doctor --json "$@" >report || [ $? = 1 ]; }
lost() { jq -r ".lost.$1" report; }
advises() { jq -e --arg t "$1" 'any(.advice[]; contains($t))' report >/dev/null; }

@test "an embedded store says how it is kept, and what a power cut takes" {
    on_server && skip "of the embedded store"
    emq add q 1 >/dev/null
    doctor
    is "$(jq -r '.facts | [.engine, .memory, .sync, .journal_mode, .path] | join(" ")' report)" \
        "sqlite no full wal $BOX/queue.db"
    is "$(lost server)" "there is none"
    [[ $(lost process) == "nothing that was acknowledged; "* ]]
    ! advises sync=
    doctor --url "sqlite:$BOX/queue.db?sync=normal"
    [[ $(lost machine) == *"in the last moments"* || $(lost machine) == *tmpfs* ]]
    advises "sync=normal"
    expect 1 emq doctor --url "sqlite:$BOX/queue.db?sync=off"
    [[ $output == *"what is lost"*"what to change"*"sync=off"* ]]
}

@test "a store in memory loses everything with its process" {
    on_server && skip "of the embedded store"
    doctor --url sqlite::memory:
    is "$(lost process)" "everything: the store is in this process's memory"
}

@test "a program that has the file open by another SQLite is named, our own are not" {
    on_server && skip "of the embedded store"
    emq add q 1 >/dev/null
    emq tail q --wait 1h >/dev/null 3>&- &
    mkfifo pipe
    sqlite3 queue.db <pipe 3>&- >shell &
    shell=$!
    exec 4>pipe
    echo 'SELECT count(*) FROM emq_job;' >&4
    until_true grep -q 1 shell
    doctor
    advises "process $shell (sqlite3) has the file open through another SQLite"
    is "$(jq '[.advice[] | select(contains("another SQLite"))] | length' report)" 1
    exec 4>&-
    wait $shell
    doctor
    ! advises "another SQLite"
}

@test "a server says what it keeps on disk, and what it may throw away" {
    on_server || skip "needs a server"
    redis CONFIG SET maxmemory-policy allkeys-lru
    redis CONFIG SET save ''
    redis CONFIG SET appendonly no
    doctor
    advises "maxmemory-policy is allkeys-lru"
    is "$(lost server)" "everything: it keeps nothing on disk"
    advises "appendonly is off: a crash of the server loses everything"
    ! advises "snapshot"
    expect 1 emq doctor
    redis CONFIG SET maxmemory-policy noeviction
    redis CONFIG SET appendonly yes
    redis CONFIG SET appendfsync always
    doctor
    ! advises maxmemory-policy
    is "$(lost server)" "nothing that was acknowledged (append-only file, written out each time)"
    redis CONFIG SET appendfsync everysec
    doctor
    [[ $(lost server) == *"the last second or two"* ]]
    redis CONFIG SET appendonly no
    redis CONFIG SET save '3600 1'
    doctor
    [[ $(lost server) == "what was acknowledged since its last snapshot"* ]]
    advises "appendonly is off: a crash of the server loses all since its last snapshot"
}

@test "what runs short, and what a failover would lose, is advised" {
    on_server || skip "needs a server"
    redis CONFIG SET timeout 100
    doctor
    advises "closes idle connections after 100 s"
    redis CONFIG SET timeout 0
    redis CONFIG SET maxmemory $(($(redis INFO memory | tr -d '\r' | sed -n 's/^used_memory://p') * 11 / 10))
    doctor
    advises "MB of the server's memory are used"
    redis CONFIG SET maxmemory 0
    redis-cli -u "$EMQ_TEST_SERVER" --replica >/dev/null 2>&1 3>&- &
    until_true sh -c 'redis-cli -u "$EMQ_TEST_SERVER" INFO replication | grep -q "^connected_slaves:1"'
    doctor
    advises "it has 1 replica, and acknowledgements don't wait for it"
    kill $!
}

@test "a wait for more replicas than there are is advised on" {
    on_server || skip "needs a server"
    doctor --url "$EMQ_TEST_SERVER?wait=2"
    advises "wait=2 in the URL: acknowledgements wait for 2 replicas, and there are only 0"
    doctor
    ! advises "wait="
}

@test "what a user may not ask is told as unknown, with the right that is missing" {
    on_server || skip "needs a server"
    redis ACL SETUSER blind on '>word' '~*' '&*' +@all -info -config
    url="redis://blind:word@${EMQ_TEST_SERVER#*://}"
    expect 1 emq doctor --url "$url" --quiet
    doctor --url "$url" --quiet
    advises "this user may not read INFO"
    advises "+info"
    advises "+config|get"
    [[ $(lost server) == "not known"* ]]
    redis ACL SETUSER blind +info +config
    doctor --url "$url"
    ! advises "may not read"
    redis ACL DELUSER blind
}

@test "too few descriptors are advised on" {
    on_server && skip "of the embedded store"
    emq add q 1 >/dev/null
    (ulimit -n 100; doctor)
    advises "only 100 descriptors a process"
}

@test "facts of the store and its versions are told, and what a broken link takes" {
    emq add q 1 >/dev/null
    doctor
    if on_server; then
        is "$(jq -r '.facts | [.engine, (.version | test("^[0-9.]+$"))] | join(" ")' report)" "redis true"
        [[ $(lost link) == "nothing: a call whose answer is lost is in doubt"* ]]
    else
        is "$(jq -r '.facts | [.engine, (.sqlite_version | test("^3[.]"))] | join(" ")' report)" "sqlite true"
        is "$(jq -r '.facts.filesystem | length > 0' report)" true
        is "$(lost link)" "there is none"
    fi
}

@test "the way to a server takes no less than nothing" {
    on_server || skip "needs a server"
    doctor
    is "$(jq -r '.facts.round_trip_ms | tonumber >= 0' report)" true
}

@test "a store that is not there is not made by looking at it" {
    on_server && skip "of the embedded store"
    for url in "sqlite:$BOX/none.db" "sqlite:none.db?sync=off"; do
        expect 66 emq doctor --url "$url"
        says "there is no file"
        says "none.db"
    done
    expect 66 env -u EMQ_URL XDG_STATE_HOME="$BOX/state" emq doctor
    [ -z "$(ls "$BOX")" ]
    expect 64 emq doctor --url foo://x
}

@test "who only looks makes no store of a file that is none, and leaves it as it was" {
    on_server && skip "of the embedded store"
    : >empty.db
    sqlite3 theirs.db 'CREATE TABLE theirs(a); INSERT INTO theirs VALUES (1)'
    sqlite3 log.db 'PRAGMA journal_mode=wal; CREATE TABLE theirs(a)' >/dev/null
    sha256sum ./*.db >sums
    expect 66 emq doctor --url sqlite:empty.db
    says "empty.db' is an empty file"
    for verb in doctor ls fsck "show q 1" "stats q" "why q 1" "logs q 1" "explain q" "tail q" "wait q 1 --timeout 1s" "dedup show q d" "effect ls q"; do
        for file in theirs log; do
            expect 66 emq $verb --url "sqlite:$file.db"
            says "$file.db' is an SQLite file without EchoMQ's tables"
        done
    done
    sha256sum -c --quiet sums
    is "$(echo *)" "empty.db log.db sums theirs.db"
    emq add q 1 --url sqlite:theirs.db >/dev/null
    is "$(sqlite3 theirs.db 'SELECT a FROM theirs')" 1
    is "$(emq ls --json --url sqlite:theirs.db | jq -r .queue)" q
}

@test "a producer whose clock differs is named with its job" {
    on_server || skip "needs a server"
    emq add q 1 --id a >/dev/null
    doctor
    ! advises "job a"
    redis HSET emq:q:a timestamp $(($(date +%s%3N) - 3600000))
    doctor
    advises "queue q: job a was added with a time"
}

@test "explain counts what a crash would make run twice, and until when it is back" {
    for i in 1 2 3 4; do emq add q $i >/dev/null; done
    emq take q --lock 1m --json >/dev/null
    emq take q --lock 1m --json >/dev/null
    emq take q --lock 1m --mode at-most-once --json >/dev/null
    expect 0 emq explain q --json
    is "$(jq -c '[.active, .atLeastOnce, .atMostOnce, .crashTwice, .processTwice, .lockEnded]' <<<"$output")" "[3,2,1,2,1,0]"
    is "$(jq '.recoveryMs > 5000 and .recoveryMs <= 65000' <<<"$output")" true
    is "$(emq explain q --stalled-interval 1h --json | jq '.recoveryMs > 3600000')" true
    expect 0 emq explain q
    [[ $output == *"a crash of all workers now: 2 may run twice, 1 end failed without running again"* ]]
    expect 1 emq explain nothing
    says "there is no queue nothing"
}

@test "explain gives what BullMQ handed out two sweeps to come back, and names no worker that has no name" {
    on_server || skip "needs a server"
    emq add q 1 --id a >/dev/null
    emq take q --lock 1m --json >/dev/null
    is "$(emq explain q --json | jq '.recoveryMs <= 65000')" true
    # A BullMQ worker's hand-out leaves no emq:tk of this processedOn, and a dead one no lock.
    redis DEL emq:q:a:lock
    redis HSET emq:q:a processedOn 12345
    redis HDEL emq:q:a pb
    is "$(emq explain q --json | jq -c '[.lockEnded, .recoveryMs]')" "[1,10000]"
    is "$(emq explain q --stalled-interval 2s --json | jq .recoveryMs)" 8000
    is "$(emq explain q --stalled-interval 1h --json | jq .recoveryMs)" 7200000
    expect 0 emq explain q
    [[ $output == *"within 10.0s"* || $output == *"within 10s"* ]]
    [[ $output == *"1 of them, taken by a BullMQ worker, have no lock"* ]]
    [[ $output != *"next sweep"* && $output != *"()"* ]]
}
