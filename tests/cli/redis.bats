#!/usr/bin/env bats
# What only a server has: passwords, and the URL of another variable.
load common

@test "a password on the command line is not shown by ps" {
    needs_server
    redis-cli -u "$EMQ_TEST_SERVER" ACL SETUSER ann on '>hush' '~*' '&*' +@all
    for url in redis://ann:hush@ redis:ann:hush@; do
        emq take q --wait 30s --url "$url${EMQ_TEST_SERVER#redis://}" 3>&- &
        until_true sh -c "ps -o args= -p $! | grep -qE 'redis:(//)?xxxxxxxx@'"
        run ps -o args= -p $!
        [[ $output != *hush* ]]
        # It is used all the same.
        emq add q '{}' --url="$url${EMQ_TEST_SERVER#redis://}"
        wait $!
    done
    redis-cli -u "$EMQ_TEST_SERVER" ACL DELUSER ann
}

@test "a password is in no message" {
    needs_server
    url=${EMQ_TEST_SERVER/redis:\/\//redis://ann:hush@}
    expect 77 emq ls -v --url "$url"
    [[ $stderr != *hush* && $stderr == *"user or password are wrong"* ]]
    expect 64 emq ls --url "$url/x?sentinel_password=hush"
    [[ $stderr != *hush* ]]
    redis-cli -u "$EMQ_TEST_SERVER" ACL SETUSER ann on '>hush' '~*' '&*' +@all
    EMQ_TRACE=engine EMQ_URL=$url emq -v work q --exit-when-empty -- true 2>talk
    grep -q ready talk
    ! grep hush talk
    redis-cli -u "$EMQ_TEST_SERVER" ACL DELUSER ann
    # A URL in the wrong place, and what may be one.
    local wrong
    for wrong in "stats $url" "ls q $url" "stats Redis${url#redis}" \
        "stats redis+sentinel://h/m?sentinel_password=hush"; do
        # shellcheck disable=SC2086
        expect 64 emq $wrong
        [[ $stderr != *hush* && $stderr == *edis* ]]
    done
}

@test "--url redis: is the URL in REDIS_URL" {
    needs_server
    REDIS_URL=$EMQ_TEST_SERVER emq add q '{}' --url redis:
    [ "$(field .waiting "$(emq stats q --json)")" = 1 ]
    expect 64 env -u REDIS_URL emq ls --url redis:
    [[ $stderr == *REDIS_URL* ]]
}

@test "a server that is not there is unreachable, at once" {
    expect 69 emq ls --url redis://127.0.0.1:1
    [[ $stderr == *"127.0.0.1:1 can't be reached"* ]]
}

on_server() { redis-cli -u "$EMQ_TEST_SERVER" "$@"; }

@test "the prefix is the option's, else EMQ_PREFIX, else the URL's, else emq" {
    needs_server
    emq add q x --id none >/dev/null
    EMQ_URL="$EMQ_TEST_SERVER?prefix=bull" emq add q x --id url >/dev/null
    EMQ_URL="$EMQ_TEST_SERVER?prefix=bull" EMQ_PREFIX=env emq add q x --id env >/dev/null
    EMQ_URL="$EMQ_TEST_SERVER?prefix=bull" EMQ_PREFIX=env emq add q x --id option --prefix a:b >/dev/null
    [ "$(on_server lrange emq:q:wait 0 -1)" = none ]
    [ "$(on_server lrange bull:q:wait 0 -1)" = url ]
    [ "$(on_server lrange env:q:wait 0 -1)" = env ]
    [ "$(on_server lrange a:b:q:wait 0 -1)" = option ]
    expect 64 emq ls --url "$EMQ_TEST_SERVER?prefix="
    says "the parameter prefix is empty"
}

@test "ls finds queues among many other keys, in slices, and only those of its prefix" {
    needs_server
    for q in mail photos '{tag}'; do emq add "$q" x --prefix bull >/dev/null; done
    emq add elsewhere x >/dev/null
    emq add deeper x --prefix bull:more >/dev/null
    emq take mail --prefix bull >/dev/null # leaves keys that are no queue's
    on_server hset bull:only-meta:meta version bullmq:6.7.0 >/dev/null
    on_server set bull:text:meta x >/dev/null
    seq 30000 | sed 's/.*/set other:& x/' | on_server --pipe >/dev/null
    on_server config resetstat >/dev/null
    [ "$(emq ls --prefix bull --json | jq -r .queue | sort | paste -sd' ')" = "mail only-meta photos {tag}" ]
    on_server info commandstats >seen
    ! grep -q cmdstat_keys seen
    [ "$(sed -nE 's/^cmdstat_scan:calls=([0-9]+).*/\1/p' seen)" -ge 5 ]
}

@test "a database has queues of its own" {
    needs_server
    emq add q x --url "$EMQ_TEST_SERVER/3" >/dev/null
    [ -z "$(emq ls)" ]
    [ "$(emq stats q --json --url "$EMQ_TEST_SERVER?db=3" | jq .waiting)" = 1 ]
    expect 64 emq ls --url "$EMQ_TEST_SERVER/mail"
    says '"mail" is no database number'
}

@test "what is wrong in a URL is named, and nothing is asked of the server" {
    local url text at=redis://127.0.0.1:1
    while read -r url text; do
        expect 64 emq ls --url "$url" </dev/null
        says "$text"
    done <<END
$at?wait=many wait=many
$at?sync=off ?sync=
$at?ca=/x rediss:
rediss://h?cert=/x ?cert= and ?key= go together
redis://a,b redis+sentinel: or redis+cluster:
redis://h:port "h:" is not followed by a port
redis+unix:rel.sock absolute path
redis+sentinel://h the primary's name
redis+cluster://h?db=1 no databases but 0
redis://ann@h user without a password
http://h no engine for the scheme "http:"; this build knows: sqlite, redis, rediss, redis+unix, redis+sentinel, rediss+sentinel, redis+cluster, rediss+cluster
END
}

@test "the password of a mistyped URL is in no message, wherever the URL stands" {
    without_server
    local url verb option
    for url in redis//ann:hush@h redis://ann:hush redis:ann:hush@h rediss:/ann:hush@h redis://ann@hush \
        'redis://ann:pw?hush=1@h' redis://h/ann:hush 'redis://h?password=hush' ann:hush@h 'sqlite:q?password=hush'; do
        ! EMQ_URL=$url emq ls 2>>talk
        ! REDIS_URL=$url emq ls --url redis: 2>>talk
    done
    emq add q x >/dev/null
    for url in redis//ann:hush@h redis://ann:hush; do
        for verb in $(emq help --json | jq -r '.verbs[].name') "$url"; do
            emq "$verb" "$url" "$url" "$url" 2>>talk || :
            for option in $(emq help "$verb" --json 2>>talk | jq -r '.options[] | select(.value).name'); do
                timeout 5 emq "$verb" q 1 "$option" "$url" 2>>talk || :
            done
        done >/dev/null
    done
    [ "$(grep -c . talk)" -gt 150 ]
    ! grep hush talk
}

@test "a URL of sentinels or of a cluster that leads to a plain server says so" {
    needs_server
    expect 64 emq ls --url "redis+sentinel://${EMQ_TEST_SERVER#redis://}/mymaster"
    says "${EMQ_TEST_SERVER#redis://} is no sentinel: write redis: for a server of its own"
    expect 64 emq ls --url "redis+cluster://${EMQ_TEST_SERVER#redis://}"
    says "it is no cluster"
}

@test "what the server refuses is 77, what it has no room for is 74, and work goes on" {
    needs_server
    on_server acl setuser ann on '>hush' '~*' '&*' +@read +@connection +info >/dev/null
    expect 77 emq add q x --url "${EMQ_TEST_SERVER/redis:\/\//redis://ann:hush@}"
    says "ACL SETUSER"
    on_server acl deluser ann >/dev/null
    emq add q x >/dev/null
    on_server config set maxmemory 1 >/dev/null
    expect 74 emq add q y
    says "out of memory and nothing was changed"
    expect 0 emq work q --exit-when-empty --quiet -- true
    on_server config set maxmemory 0 >/dev/null
    expect 0 emq add q y
    [ "$(emq stats q --json | jq -c '[.waiting, .completed]')" = "[1,1]" ]
}

@test "a read-only replica can be looked at; what would change anything is 77" {
    needs_server
    emq add q x --id a >/dev/null
    on_server replicaof 127.0.0.1 1 >/dev/null
    for verb in "stats q" ls "ls q" "show q a" "logs q a" "tail q --all --count 1" "dedup show q k"; do
        # shellcheck disable=SC2086
        run emq $verb
        [ "$status" -le 1 ]
    done
    [ "$(emq stats q --json | jq .waiting)" = 1 ]
    for verb in "add q y" "take q" "pause q" "work q -- true" "sweep q"; do
        # shellcheck disable=SC2086
        expect 77 emq $verb
        says "read-only replica"
    done
    on_server replicaof no one >/dev/null
    expect 0 emq add q y
}

in_part() { [ "$(on_server hexists emq:q:meta emq:pub)" = 1 ]; }

@test "a batch whose publisher is killed comes to be with the next act" {
    needs_server
    local i waiting
    for i in $(seq 1 100000); do echo "{\"data\":$i}"; done >long
    for i in 1 2 3 4 5; do # until it is killed in the middle
        on_server flushall >/dev/null
        emq add q --batch long >/dev/null &
        until_true in_part
        kill -KILL $!
        wait $! || :
        waiting=$(emq stats q --json | jq .waiting)
        [ "$waiting" -eq 100000 ] || break
    done
    [ "$waiting" -lt 100000 ]
    expect 0 emq take q --json
    [ "$(emq stats q --json | jq .waiting)" -gt "$waiting" ]
    [ "$(on_server hset emq:q:meta emq:pub 1)" = 0 ] # long ago
    expect 1 emq fsck q --repair
    [[ $output == *"a batch is there in part: the program that published it is gone"* ]]
    [ "$(emq stats q --json | jq .waiting)" = 99999 ]
    expect 0 emq fsck q
}

@test "a key of another type is named, and other queues go on" {
    needs_server
    on_server set emq:q:wait x >/dev/null
    expect 64 emq add q x
    says 'the key "emq:q:wait" is a string and not a list'
    expect 0 emq add other x
    on_server hset emq:q:meta a b >/dev/null
    expect 64 emq ls
    says 'the key "emq:q:wait" is a string and not a list'
    [[ $output == *other* ]]
    expect 64 emq ls --json
    [ "$(field .queue)" = other ]
    expect 1 emq fsck q --repair
    [ "$output" = "q: a key is of another type than it should be: wait is a string (type): not repairable" ]
    on_server del emq:q:wait emq:q:meta >/dev/null
    expect 0 emq ls
    on_server set emq:id-of:id hello >/dev/null
    expect 64 emq add id-of x
    says 'the key "emq:id-of:id" is a text and not a whole number'
    on_server set emq:text:meta x >/dev/null
    expect 64 emq ls text
    says 'the key "emq:text:meta" is a string and not a hash'
    expect 1 emq fsck text
    [[ $output == *"meta is a string (type): not repairable" ]]
    expect 0 emq ls --json
    says 'emq:text:meta\" is a string and not a hash: it belongs to something else, and is not listed'
    [ "$(field .queue)" = other ]
}

@test "fsck names a dedup key of another type" {
    needs_server
    emq add q x >/dev/null
    on_server lpush emq:q:de:k x >/dev/null
    expect 1 emq fsck q
    [ "$output" = "q: a key is of another type than it should be: de:k is a list (type): not repairable" ]
}

@test "a job whose record is a string holds up nobody, and fsck names it" {
    needs_server
    local verb i
    for i in 1 2 3; do emq add q x --id "j$i" >/dev/null; done
    on_server del emq:q:j1 >/dev/null
    on_server set emq:q:j1 x >/dev/null
    for verb in "stats q" ls "ls q" "show q j2" "why q j2" "explain q" "tail q --all --count 1" "cancel q j3"; do
        # shellcheck disable=SC2086
        expect 0 emq $verb
    done
    expect 1 emq fsck
    grep -qF "q: job j1: a key is of another type than it should be: the record is a string" <<<"$output"
    expect 0 emq work q --exit-when-empty -- true
    [ "$(emq show q j2 --json | jq -r .state)" = completed ]
    [ "$(on_server get emq:q:j1)" = x ]
}

@test "a worker is refused when a key of one of its queues belongs to something else" {
    needs_server
    local key queues
    emq add good x >/dev/null
    for key in events marker id stalled limiter pc wait meta; do
        on_server del "emq:q:$key" >/dev/null
        case $key in
        id | limiter | pc) on_server lpush "emq:q:$key" x >/dev/null ;;
        *) on_server set "emq:q:$key" x >/dev/null ;;
        esac
        for queues in q "good q"; do
            # shellcheck disable=SC2086
            expect 64 timeout 60 emq work $queues --exit-when-empty -- true
            says "the key \"emq:q:$key\" is a"
        done
        on_server del "emq:q:$key" >/dev/null
    done
    [ "$(emq stats good --json | jq .waiting)" = 1 ]
}

@test "a key that becomes another's while a worker runs ends exit-when-empty, and no job is lost" {
    needs_server
    emq add q x >/dev/null
    emq add q y >/dev/null
    expect 64 timeout 60 emq work q --exit-when-empty --lock 500ms -- \
        sh -c "redis-cli -u $EMQ_TEST_SERVER rename emq:q:wait aside && redis-cli -u $EMQ_TEST_SERVER set emq:q:wait x"
    says 'giving up: nothing could be stored for 500ms: the key "emq:q:wait" is a string and not a list'
    on_server rename aside emq:q:wait >/dev/null
    expect 0 emq work q --exit-when-empty --stalled-interval 100ms -- true
    [ "$(emq stats q --json | jq -c '[.completed, .totals.added]')" = "[2,2]" ]
}

@test "an outcome that a key of another type keeps from being stored leaves its job with its worker, for the sweep" {
    needs_server
    local key set
    for key in completed stalled active meta; do
        on_server flushdb >/dev/null
        emq add q x >/dev/null
        emq add q y >/dev/null
        set="redis-cli -u $EMQ_TEST_SERVER set emq:q:$key x"
        [ "$key" = completed ] || [ "$key" = stalled ] || set="redis-cli -u $EMQ_TEST_SERVER rename emq:q:$key aside && $set"
        expect 64 timeout 60 emq work q --exit-when-empty --lock 500ms -- sh -c "$set"
        says "the key \"emq:q:$key\" is a string"
        on_server del "emq:q:$key" >/dev/null
        [ "$(on_server exists aside)" = 0 ] || on_server rename aside "emq:q:$key" >/dev/null
        [ "$(emq stats q --json | jq -c '[.active, .completed]')" = "[1,0]" ]
        expect 0 emq sweep q
        expect 0 emq fsck q
        expect 0 emq work q --exit-when-empty -- true
        [ "$(emq stats q --json | jq -c '[.completed, .totals.added]')" = "[2,2]" ]
    done
}

@test "an outcome that a key of another type keeps from being stored waits for the key, and is the handler's own" {
    needs_server
    emq add q x >/dev/null
    emq work q --lock 5s -- sh -c "redis-cli -u $EMQ_TEST_SERVER set emq:q:completed x" 2>work.err &
    until_true grep -q 'the key "emq:q:completed" is a string' work.err
    on_server del emq:q:completed >/dev/null
    until_true sh -c 'emq show q 1 --json | jq -e ".state == \"completed\""'
    kill -TERM $!
    wait $!
}

@test "outcomes that are kept are told once a cause, and again when they leave the other queues no place, and when it is over" {
    needs_server
    local kept='q: storing an outcome, which is kept and tried again' key='the key "emq:q:completed" is a string and not a zset: it belongs to something else; move it away'
    emq add q first >/dev/null
    emq add q second >/dev/null
    emq work q other --concurrency 2 --lock 5s -- sh -c "case \$(cat) in
        first) redis-cli -u $EMQ_TEST_SERVER set emq:q:completed x ;;
        second) until [ -e $PWD/go ]; do sleep 0.05; done ;;
        esac" 2>work.err &
    until_true grep -qF "$kept: $key" work.err
    touch go
    until_true grep -qF "$kept (no place is left: this worker takes no job of any queue until then): $key" work.err
    emq add other x --id o >/dev/null
    [ "$(grep -cF "$key" work.err)" = 2 ]
    [ "$(emq show other o --json | jq -r .state)" = waiting ]
    on_server del emq:q:completed >/dev/null
    until_true grep -qF 'q: outcomes are stored again' work.err
    until_true sh -c 'emq show other o --json | jq -e ".state == \"completed\""'
    [ "$(grep -cF 'outcomes are stored again' work.err)" = 1 ]
    kill -TERM $!
    wait $!
}

@test "a user without the right to a key of the queue is told which, with 77" {
    needs_server
    on_server acl setuser bob on '>pw' '~emq:q:[^m]*' '~emq::*' '&*' +@all >/dev/null
    for verb in "add q x" "take q" "stats q" "work q --exit-when-empty -- true"; do
        # shellcheck disable=SC2086
        expect 77 env EMQ_URL="${EMQ_TEST_SERVER/redis:\/\//redis://bob:pw@}" emq $verb
        says 'this user may not reach the key "emq:q:meta": allow it all keys of the prefix, ~emq:*'
    done
    on_server acl deluser bob >/dev/null
}

@test "a job of BullMQ's is worked, and what is not in its keys is not made up" {
    needs_server
    on_server hset bull:q:1 name old data '{"n":1}' opts '{"attempts":0}' timestamp 1795967013507 delay 0 priority 0 >/dev/null
    on_server lpush bull:q:wait 1 >/dev/null
    export EMQ_PREFIX=bull
    expect 0 emq work q --exit-when-empty --quiet -- cat
    [ "$(emq show q 1 --json | jq -c '[.name, .data, .returnvalue, .state, .timestamp]')" = '["old",{"n":1},{"n":1},"completed",1795967013507]' ]
    [ "$(on_server hget bull:q:1 returnvalue)" = '{"n":1}' ]
}

@test "exit-when-empty ends at the next run of a scheduler, which needs a BullMQ worker, and says what stays" {
    local at=1795967014566
    needs_server
    on_server hset "bull:q:repeat:tick:$at" name tick data '{}' opts '{}' timestamp $at delay 0 priority 0 rjk tick >/dev/null
    on_server hset bull:q:repeat:tick name tick every 60000 ic 1 >/dev/null
    on_server zadd bull:q:repeat $at tick >/dev/null
    on_server zadd bull:q:delayed "$((at * 4096))" "repeat:tick:$at" >/dev/null
    export EMQ_PREFIX=bull
    emq add q x --id plain >/dev/null
    expect 0 timeout 60 emq work q --exit-when-empty -- true
    [ "$(emq show q plain --json | jq -r .state)" = completed ]
    [ "$(emq ls q --state waiting --json | jq -r .id)" = "repeat:tick:$at" ]
    says "q: 1 job in line is left to other workers"
}

# The next run of scheduler $1 of queue q, delayed or waiting.
next_run() {
    local id="repeat:$1:1795967014566"
    on_server hset "bull:q:$id" name tick data '{}' opts '{}' timestamp 1795967014566 delay 0 priority 0 rjk "$1"
    on_server zadd bull:q:repeat 1795967014566 "$1"
    if [ "$2" = delayed ]; then on_server zadd bull:q:delayed 7356280891662336 "$id"; else on_server lpush bull:q:wait "$id"; fi
}

@test "the next run of a scheduler is neither removed nor cancelled, and is told among what stays" {
    local verb done
    needs_server
    export EMQ_PREFIX=bull
    next_run tick delayed
    next_run a:b waiting
    on_server hset bull:q:repeat:tick:7 name tick data '{}' opts '{}' timestamp 7 delay 0 priority 0 rjk tick
    on_server lpush bull:q:wait repeat:tick:7
    for verb in rm cancel; do
        for how in "" --dry-run; do
            # shellcheck disable=SC2086
            expect 1 emq $verb q repeat:tick:1795967014566 repeat:a:b:1795967014566 $how
            says "job repeat:tick:1795967014566: it is the next run of scheduler tick, which makes no more without it: remove the scheduler, with BullMQ"
            says "job repeat:a:b:1795967014566: it is the next run of scheduler a:b"
        done
    done
    for verb in cancel rm; do
        done=$([ $verb = rm ] && echo removed || echo cancelled)
        emq add q x --id other$verb >/dev/null
        expect 0 emq $verb q --all --dry-run --verbose
        says "2 jobs stay, the next runs of schedulers: remove the schedulers, with BullMQ: repeat:a:b:1795967014566, repeat:tick:1795967014566"
        expect 0 emq $verb q --state delayed --json
        [ "$(field '"\(.count) \(.stayed)"')" = '0 ["repeat:tick:1795967014566"]' ]
        expect 0 emq $verb q --state waiting
        says "$done"
        says "1 job stays, the next run of a scheduler: remove the scheduler, with BullMQ"
        [ "$(emq show q other$verb --json 2>/dev/null | jq -r .state)" = "$([ $verb = rm ] || echo failed)" ]
        [ "$(on_server llen bull:q:wait) $(on_server zcard bull:q:delayed)" = "1 1" ]
    done
}

@test "a parent below which a job is held says so, and a parent takes its children along" {
    needs_server
    emq add q x --id parent >/dev/null
    emq add c x --id child >/dev/null
    on_server lrem emq:q:wait 1 parent
    on_server zadd emq:q:waiting-children 1 parent
    on_server sadd emq:q:parent:dependencies emq:c:child
    on_server hset emq:c:child parentKey emq:q:parent parent '{"id":"parent","queueKey":"emq:q"}'
    token=$(emq take c --json | jq -r .token)
    expect 1 emq rm q parent
    says "job parent: a child of it is being worked on: cancel the child, or wait"
    expect 0 emq settle c child --token "$token" --retry 1h
    expect 0 emq rm q parent
    expect 1 emq show c child
}

@test "a job whose children are not done or have failed is not completed, and settle says why and what to do" {
    needs_server
    for id in waits over; do emq add q x --id $id --attempts 1 >/dev/null; done
    on_server sadd emq:q:waits:dependencies emq:c:child
    on_server zadd emq:q:over:unsuccessful 1 emq:c:child
    token=$(emq take q --json | jq -r .token)
    expect 1 emq settle q waits --token "$token" --completed x
    says "job waits is not completed: children of it are not done, and it is still held; settle it with --retry or --failed, or wait and extend its lock"
    expect 0 emq settle q waits --token "$token" --failed "no children"
    expect 1 emq settle q over --force --completed x
    says "nobody works on it"
    token=$(emq take q --json | jq -r .token)
    expect 1 emq settle q over --token "$token" --completed x
    says "job over is not completed: a child of it has failed, which fails it; settle it with --failed"
    expect 1 emq settle q over --force --completed x
    says "a child of it has failed"
}

@test "a program that succeeds in a job whose children are not done runs once an attempt, with its effect not done" {
    needs_server
    printf '["INCR","hits"]\n' >effect.txt
    for how in plain redis stream; do
        emq add q "$how" --id "$how" --attempts 2 --backoff none >/dev/null
        on_server sadd "emq:q:$how:dependencies" emq:c:child
        case $how in
        plain) set -- -- sh -c 'echo x >>runs.plain' ;;
        redis) set -- -- sh -c 'echo x >>runs.redis; echo "redis effect.txt" >&3' ;;
        stream) set -- --stream -- sh -c 'while read -r line; do echo x >>runs.stream; echo "{\"redis\":\"effect.txt\"}"; echo "{\"id\":\"stream\",\"result\":1}"; done' ;;
        esac
        expect 1 timeout 60 emq work q --exit-when-empty --lock 1s --stalled-interval 1s "$@"
        [ "$(wc -l <"runs.$how")" -eq 2 ]
        [ "$(emq show q "$how" --json | jq -c '[.state, .attemptsMade, .stalledCounter]')" = '["failed",2,0]' ]
        expect 0 emq why q "$how"
        [[ $output == *"not completed: children of the job are not done"* ]]
    done
    [ -z "$(on_server get hits)" ]
}

# Arguments with which a verb would do something.
arguments() {
    case $1 in
    add) echo q x ;;
    work | run) echo q -- true ;;
    extend) echo q 1 --token t:1 ;;
    settle) echo q 1 --token t:1 --completed ;;
    wait | show | why | logs | retry | promote | cancel | rm) echo q 1 ;;
    take | ls | stats | explain | tail | pause | resume | drain | obliterate | sweep) echo q ;;
    effect) echo ls q ;;
    fsck | doctor) ;;
    lab) echo --url "$EMQ_URL" ;;
    edit) echo q 1 --priority 1 ;;
    clean) echo q --state waiting --older 0 ;;
    dedup) echo show q k ;;
    *) echo "no arguments for $1" >&2 && return 1 ;;
    esac
}

@test "every verb says that its store can't be reached" {
    local code verb
    export EMQ_URL=redis://127.0.0.1:1
    for verb in $(emq help --json | jq -r '.verbs[].name'); do
        case $verb in help | completion | version) continue ;; run) code=125 ;; *) code=69 ;; esac
        # shellcheck disable=SC2046
        expect $code emq "$verb" --json $(arguments "$verb")
        [ -z "$output" ]
        [ "$(jq -r '.verb, .status, .exit' <<<"$stderr" | xargs)" = "$verb E_UNAVAIL $code" ]
        says "127.0.0.1:1 can't be reached"
    done
}

@test "no key of a job that is not finished ends by itself, so that it never outlives its data" {
    needs_server
    head -c 3000 /dev/zero | tr '\0' d >long
    emq add q @long --id held --lifo >/dev/null
    emq take q --lock 1h >/dev/null
    emq add q 1 --id waiting >/dev/null
    emq add q 1 --id late --delay 400d >/dev/null
    emq add q 1 --id urgent --priority 1 >/dev/null
    for key in wait active delayed prioritized meta id held waiting late urgent; do
        [ "$(on_server pttl "emq:q:$key")" = -1 ] || { echo "$key ends" >&2; return 1; }
    done
}
