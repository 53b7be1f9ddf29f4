#!/usr/bin/env bats
# Broken queues are found and repaired; sound ones are left alone.
# shellcheck disable=SC2016 # the programs of workers expand their own variables
load common

on_server() { [ -n "${EMQ_TEST_SERVER:-}" ]; }
redis() { redis-cli -u "$EMQ_TEST_SERVER" "$@"; }
is() { [ "$1" = "$2" ] || { echo "\"$1\" is not \"$2\"" >&2; return 1; }; }
hand_out() { TOKEN=$(emq take q --lock "${1:-1h}" --json | jq -r .token); }

# A queue with jobs in every place: held, finished both ways, with logs, long data, dedup, kept duplicates.
furnish() {
    emq add q first --id done >/dev/null
    emq work q --exit-when-empty --quiet -- sh -c 'echo said >&2; head -c 3000 /dev/zero | tr "\0" r'
    emq add q first --id broke --attempts 1 >/dev/null
    emq work q --exit-when-empty --quiet -- false || :
    head -c 3000 /dev/zero | tr '\0' d >long
    emq add q @long --id held --dedup last --dedup-mode keep-last >/dev/null
    hand_out
    emq add q newer --id kept --dedup last --dedup-mode keep-last >/dev/null
    emq add q 1 --id next >/dev/null
    emq add q 1 --id after --dedup once >/dev/null
    emq add q 1 --id urgent --priority 5 >/dev/null
    emq add q 1 --id urgent2 --priority 5 >/dev/null
    emq add q 1 --id late --delay 1h >/dev/null
    emq add q 1 >/dev/null
}

# Whoever was there is there, each once.
ids() { emq ls q --json | jq -r .id | sort | tr '\n' ' '; }

# flaw, then what makes it: found, named, left by a dry run, repaired, and then nothing is found.
EXPECT_LOST=
found_and_repaired() {
    local flaw=$1 job=${2:-}
    code=0
    out=$(emq fsck --wait 0 --json 2>err) || code=$?
    is "$code" 1 || return 1
    jq -se --arg f "$flaw" 'any(.[]; .flaw == $f)' <<<"$out" >/dev/null ||
        { echo "$flaw not found: $out" >&2; return 1; }
    [ -z "$job" ] || is "$(jq -sr --arg f "$flaw" 'map(select(.flaw == $f))[0].id' <<<"$out")" "$job" || return 1
    emq fsck --wait 0 --repair --dry-run --json >again 2>err || :
    is "$(jq -s 'any(.[]; .outcome == "repaired")' again)" false || return 1
    is "$(jq -sc 'map(.flaw) | sort' again)" "$(jq -sc 'map(.flaw) | sort' <<<"$out")" || return 1
    code=0
    emq fsck --wait 0 --repair --json >repairs 2>err || code=$?
    is "$code" 1 || return 1
    is "$(jq -s --arg f "$flaw" 'map(select(.flaw == $f))[0].outcome' repairs)" '"repaired"' || return 1
    emq fsck --wait 0 >left 2>err || { cat left repairs err >&2; return 1; }
}

each_planted() { # lines "flaw | job | what plants it"
    local flaw job how n=0
    while IFS='|' read -r flaw job how; do
        flaw=${flaw// /} job=${job// /}
        [ -n "$flaw" ] || continue
        fresh
        before=$(ids)
        plant "$how"
        found_and_repaired "$flaw" "$job" || { echo "planted: $flaw: $how" >&2; return 1; }
        [ "$flaw" = orphan-keys ] || [[ " $(ids) " == *" $before"* || -n $(lost_none "$before") ]] ||
            { echo "jobs before: $before; after: $(ids); planted: $flaw: $how" >&2; return 1; }
        n=$((n + 1))
    done
    [ "$n" -ge 20 ]
}
# Every id of before is there.
lost_none() {
    local id after
    after=" $(ids) "
    for id in $1; do
        [[ $after == *" $id "* ]] || return 0
    done
    echo none
}

@test "sqlite: each of the planted flaws is found, named and repaired, and no job is lost" {
    on_server && skip "of the embedded store"
    furnish
    sqlite3 queue.db 'PRAGMA wal_checkpoint(TRUNCATE)' >/dev/null
    cp queue.db sound.db
    fresh() {
        rm -f q.db*
        cp sound.db q.db
        EMQ_URL=sqlite:$BOX/q.db
    }
    plant() { sqlite3 q.db "$1"; }
    fresh
    emq fsck --wait 0
    each_planted <<'P'
state       | next  | UPDATE emq_job SET state = 9 WHERE id = 'next'
staged      | next  | UPDATE emq_job SET state = 8, ord1 = 77 WHERE id = 'next'
side        | held  | UPDATE emq_job SET side = side | 8 WHERE id = 'held'
side        | done  | UPDATE emq_job SET logs = 9 WHERE id = 'done'
side        | done  | DELETE FROM emq_result
line        | urgent| UPDATE emq_job SET priority = 0 WHERE id = 'urgent'
line        | next  | UPDATE emq_job SET priority = 7 WHERE id = 'next'
owner       | held  | UPDATE emq_job SET worker = NULL WHERE id = 'held'
finished    | done  | UPDATE emq_job SET finished_at_ms = 0 WHERE id = 'done'
finished    | next  | UPDATE emq_job SET finished_at_ms = 5 WHERE id = 'next'
place       | late  | UPDATE emq_job SET ord1 = 0 WHERE id = 'late'
place       | urgent| UPDATE emq_job SET ord1 = 1 WHERE id = 'urgent'
twin        | after | UPDATE emq_job SET ord2 = (SELECT ord2 FROM emq_job WHERE id = 'next') WHERE id = 'after'
lock        | held  | UPDATE emq_job SET lock_end = 9000000000000000 WHERE id = 'held'
once        | held  | UPDATE emq_job SET mode = 1 WHERE id = 'held'
held        | next  | UPDATE emq_job SET cancel = 1 WHERE id = 'next'
reason      | broke | UPDATE emq_job SET failed_reason = NULL WHERE id = 'broke'
deferred    | broke | UPDATE emq_job SET deferred = 'later' WHERE id = 'broke'
attempts    | broke | UPDATE emq_job SET attempts_made = 9 WHERE id = 'broke'
stalled     | held  | UPDATE emq_job SET lock_end = 1 WHERE id = 'held'
parent      | next  | UPDATE emq_job SET state = 5, ord1 = 1, ord2 = 1 WHERE id = 'next'; UPDATE emq_queue SET n_waiting = n_waiting - 1, n_waiting_children = 1
parent      | next  | UPDATE emq_job SET state = 5, ord1 = 1, ord2 = 1, side = side | 4 WHERE id = 'next'; INSERT INTO emq_dependency SELECT jid, 'emq:q:done', 2, 1, '1' FROM emq_job WHERE id = 'next'
child       | next  | UPDATE emq_job SET state = 5, ord1 = 1, ord2 = 1, side = side | 4 WHERE id = 'next'; INSERT INTO emq_dependency SELECT jid, 'emq:q:gone', 1, 1, NULL FROM emq_job WHERE id = 'next'
hidden      |       | UPDATE emq_queue SET visible = 0
schema      |       | DROP VIEW emq_jobs
schema      |       | DROP INDEX emq_job_place
counter     |       | UPDATE emq_queue SET n_waiting = 40
counter     |       | UPDATE emq_queue SET t_added = t_added + 3
counter     |       | UPDATE emq_queue SET fence = 1
counter     |       | UPDATE emq_queue SET last_id = 0
counter     |       | UPDATE emq_queue SET back = 0
counter     |       | UPDATE emq_queue SET publishing = 1
counter     |       | UPDATE emq_queue SET event_count = 1
event       |       | UPDATE emq_event SET body = 'oops' WHERE (ms, seq) IN (SELECT ms, seq FROM emq_event LIMIT 1)
event       |       | UPDATE emq_event SET body = '[1]' WHERE (ms, seq) IN (SELECT ms, seq FROM emq_event LIMIT 1)
dedup-owner | nobody| INSERT INTO emq_dedup VALUES (1, 'd', 'nobody', 0, 0)
dedup-flag  | after | UPDATE emq_dedup SET has_next = 1 WHERE id = 'once'
dedup-next  | kept  | DELETE FROM emq_dedup WHERE id = 'last'
stage       |       | INSERT INTO emq_stage_queue (qid, sid, last) VALUES (1, 5, 3)
old-stage   |       | INSERT INTO emq_stage VALUES (6, 'emq', 's', 1, 0, 0)
orphan      |       | INSERT INTO emq_data VALUES (999, 'x')
orphan      |       | INSERT INTO emq_log VALUES (999, 1, 'x')
orphan      |       | INSERT INTO emq_meta VALUES (99, 'paused', '1')
P
}

@test "server: each of the planted flaws is found, named and repaired, and no job is lost" {
    on_server || skip "needs a server"
    furnish
    emq add other 1 >/dev/null
    copy() { # from one database of the server to another
        redis -n "$2" flushdb >/dev/null
        redis -n "$1" eval "for _, k in ipairs(redis.call('KEYS', '*')) do redis.call('COPY', k, k, 'DB', $2) end" 0 >/dev/null
    }
    copy 0 1
    fresh() { copy 1 0; }
    plant() { eval "$1" >/dev/null; }
    emq fsck --wait 0
    each_planted <<'P'
ghost       | nobody | redis RPUSH emq:q:wait nobody
ghost       | nobody | redis ZADD emq:q:delayed 7356281296949248 nobody
record      | next   | redis HDEL emq:q:next opts
number      | next   | redis HSET emq:q:next timestamp abc
number      | broke  | redis HSET emq:q:broke stc abc
unfinished  | next   | redis HSET emq:q:next finishedOn 5
due         | late   | redis ZADD emq:q:delayed 1795967113513 late
due         | late   | redis ZADD emq:q:delayed -1 late
due         | late   | redis ZADD emq:q:delayed inf late
priority    | urgent | redis ZADD emq:q:prioritized 38654705665 urgent
priority    | urgent | redis HDEL emq:q:urgent priority
finished    | done   | redis ZADD emq:q:completed 17 done
finished    | broke  | redis HDEL emq:q:broke finishedOn
result      | done   | redis HDEL emq:q:done returnvalue
result      | done   | redis HSET emq:q:done returnvalue 'raw bytes'
reason      | broke  | redis HDEL emq:q:broke failedReason
deferred    | broke  | redis HSET emq:q:broke defa later
lock        | held   | redis PERSIST emq:q:held:lock
fence       | held   | redis HSET emq:q:meta emq:fence 1
stalled     | held   | redis DEL emq:q:held:lock
parent      | next   | redis LREM emq:q:wait 0 next; redis ZADD emq:q:waiting-children 1 next
child       | next   | redis LREM emq:q:wait 0 next; redis ZADD emq:q:waiting-children 1 next; redis SADD emq:q:next:dependencies emq:q:gone
child-ended | next   | redis LREM emq:q:wait 0 next; redis ZADD emq:q:waiting-children 1 next; redis SADD emq:q:next:dependencies emq:q:done
child-twice | next   | redis LREM emq:q:wait 0 next; redis ZADD emq:q:waiting-children 1 next; redis SADD emq:q:next:dependencies emq:q:after; redis HSET emq:q:next:processed emq:q:after 1
child-twice | next   | redis LREM emq:q:wait 0 next; redis ZADD emq:q:waiting-children 1 next; redis SADD emq:q:next:dependencies emq:q:after; redis ZADD emq:q:next:unsuccessful 1 emq:q:after
twice       | next   | redis RPUSH emq:q:wait next
twice       | done   | redis LPUSH emq:q:wait done
twice       | held   | redis LPUSH emq:q:wait held
nowhere     | next   | redis LREM emq:q:wait 0 next
nowhere     | done   | redis ZREM emq:q:completed done
nowhere     | held   | redis LREM emq:q:active 0 held; redis DEL emq:q:held:lock
staged      | staged | redis HSET emq::emq:q:staged:staged name x data 1 opts {} timestamp 1 emq:stage '5 1 emq::emq::stage:gone'
debris      | zombie | redis HSET emq:q:zombie progress 5
leftover    | zombie | redis RPUSH emq:q:zombie:logs x
leftover    | zombie | redis SET emq:q:zombie:lock t PX 100000
lock-left   | next   | redis SET emq:q:next:lock t PX 100000
dedup-owner | nobody | redis SET emq:q:de:d nobody
dedup-owner | broke  | redis SET emq:q:de:d broke
dedup-owner | wait   | redis SET emq:q:de:d wait
dedup-next  | kept   | redis DEL emq:q:de:last
kept-record | kept   | redis HDEL emq:q:dn:last opts
kept-record | part   | redis HSET emq:q:dn:D9 jid part data 1
limiter     |        | redis SET emq:q:limiter 5
sweeps      |        | redis SET emq:q:stalled-check 5
marker      |        | redis DEL emq:other:marker
mark        | next   | redis SADD emq:q:stalled next
counter     |        | redis SET emq:q:id 0
counter     |        | redis SET emq:q:id abc
counter     |        | redis SET emq:q:id abc; redis DEL emq:q:de:last
counter     |        | redis SET emq:q:id 99999999999999999999
order       |        | redis SET emq:q:pc abc
iterations  |        | redis ZADD emq:q:repeat 5 s; redis HSET emq:q:repeat:s name n every 9 limit 3 ic x
iterations  |        | redis ZADD emq:q:repeat 5 s; redis HSET emq:q:repeat:s name n every 9 limit 3 ic 0
event       | next   | redis XADD emq:q:events '*' event completed jobId next returnvalue oops prev active
P
}

@test "server: a finished job that was put into the line too does not run again" {
    on_server || skip "needs a server"
    furnish
    redis LPUSH emq:q:wait done
    expect 1 emq fsck q --wait 0 --repair
    is "$(emq show q done --json | jq -r .state)" completed
    is "$(redis LPOS emq:q:wait done)" ""
}

@test "server: a key of another type is told, and what is behind it left alone" {
    on_server || skip "needs a server"
    furnish
    redis SET emq:q:stalled x
    expect 1 emq fsck q --wait 0 --repair --json
    is "$(jq -r '.flaw + ": " + .outcome' <<<"$output")" "type: not repairable"
}

@test "server: a job that has not ended, and stands among those that have too, keeps its line" {
    on_server || skip "needs a server"
    furnish
    for place in "completed 0" "failed $(date +%s%3N)"; do
        for id in next urgent late held; do
            redis ZADD "emq:q:${place% *}" "${place#* }" "$id"
            state=$(redis HGETALL "emq:q:$id" | sort)
            expect 1 emq fsck q --wait 0 --repair
            expect 0 emq fsck q --wait 0
            is "$(redis ZSCORE "emq:q:${place% *}" "$id")" ""
            is "$(redis HGETALL "emq:q:$id" | sort)" "$state"
        done
    done
    redis RPUSH emq:q:wait ''
    expect 1 emq fsck q --wait 0 --json
    is "$(jq -r .flaw <<<"$output")" ghost
}

@test "server: a key of another type beside a record is told, the rest is looked at" {
    on_server || skip "needs a server"
    furnish
    redis LREM emq:q:wait 0 next
    redis ZADD emq:q:waiting-children 1 next
    redis SET emq:q:next:dependencies x
    redis DEL emq:q:held:lock
    redis RPUSH emq:q:held:lock x
    redis RPUSH emq:q:wait ghost
    expect 1 emq fsck q --wait 0 --repair --json
    is "$(jq -r '.flaw + " " + .id + " " + .outcome' <<<"$output" | sort | tr '\n' ',')" \
        "ghost ghost repaired,type held not repairable,type next not repairable,"
}

@test "server: what is left of a kept duplicate is told and left, whoever holds its dedup id" {
    on_server || skip "needs a server"
    emq add q 1 --id owner --dedup D9 --dedup-mode keep-last >/dev/null
    redis HSET emq:q:dn:D9 name a
    expect 1 emq fsck --wait 0 --repair --json
    is "$(jq -r '.flaw + " " + .outcome' <<<"$output")" "kept-data not repairable"
    is "$(redis GET emq:q:de:D9)" owner
    emq work q --exit-when-empty --quiet -- true
    is "$(emq show q owner --json | jq -r .state)" completed
    is "$(redis EXISTS emq:q:de:D9 emq:q:dn:D9)" 1
    expect 1 emq fsck --wait 0 --repair --json
    is "$(jq -r '.flaw + " " + .outcome' <<<"$output")" "kept-data not repairable"
    is "$(redis EXISTS emq:q:de:D9 emq:q:dn:D9)" 1
}

@test "server: what only who set it can set again is told and left" {
    on_server || skip "needs a server"
    emq add q 1 --id did >/dev/null
    emq work q --exit-when-empty --quiet -- true
    emq add q 1 --id a >/dev/null
    redis HSET emq:q:meta concurrency abc
    redis HSET emq:q:a opts '{bad'
    redis ZADD emq:q:repeat 5 ends 5 goes 5 stops
    for id in ends goes stops; do redis HSET "emq:q:repeat:$id" name n every 9 ic 1; done
    redis HSET emq:q:repeat:ends endDate 7
    redis HSET emq:q:repeat:goes:5 name n data 1 opts {} timestamp 5
    redis RPUSH emq:q:wait repeat:goes:5
    redis ZADD emq:q:did:unsuccessful 1 emq:q:a
    redis HSET emq:q:parent name n data 1 opts {} timestamp 5
    redis ZADD emq:q:waiting-children 1 parent
    redis SADD emq:q:parent:dependencies emq:q:a
    redis HSET emq:q:parent:processed c 1
    redis HSET emq:q:parent:failed c no
    expect 1 emq fsck --wait 0 --repair --json
    is "$(jq -r '.flaw + " " + .id + " " + .outcome' <<<"$output" | sort | tr '\n' ',')" \
        "child-ends parent not repairable,in-vain did not repairable,opts a not repairable,setting  not repairable,unscheduled repeat:stops:5 not repairable,"
}

@test "each job of a flaw is told, and each setting" {
    for i in 1 2 3; do emq add q 1 --id "j$i" >/dev/null; done
    if on_server; then
        redis RPUSH emq:q:wait g1 g2 g3
        redis SADD emq:q:stalled j1 j2 j3
        redis HSET emq:q:meta concurrency abc max abc
        expected="ghost g1,ghost g2,ghost g3,mark j1,mark j2,mark j3,setting ,setting ,"
    else
        sqlite3 queue.db "UPDATE emq_job SET priority = 7;
            INSERT INTO emq_meta VALUES (1, 'concurrency', 'abc'), (1, 'max', 'abc')"
        expected="line j1,line j2,line j3,setting ,setting ,"
    fi
    expect 1 emq fsck --wait 0 --json
    is "$(jq -r '.flaw + " " + .id' <<<"$output" | sort | tr '\n' ',')" "$expected"
    expect 1 emq fsck --wait 0 --repair
    says "$(($(tr -dc , <<<"$expected" | wc -c) - 2)) repaired"
}

@test "server: a queue without settings is found and repaired, with what is in it" {
    on_server || skip "needs a server"
    emq add other 1 >/dev/null
    emq add q 1 --id a >/dev/null
    redis DEL emq:q:meta
    redis LPUSH emq:q:wait ghost
    expect 1 emq fsck --wait 0 --json
    is "$(jq -r '.queue + " " + .flaw + " " + .id' <<<"$output" | sort | tr '\n' ',')" "q ghost ghost,q meta ,"
    expect 1 emq fsck --wait 0 --repair
    expect 0 emq fsck --wait 0
    is "$(emq ls --json | jq -r .queue | tr '\n' ' ')" "other q "
    redis DEL emq:q:meta emq:q:wait
    expect 1 emq fsck --wait 0 --repair
    expect 0 emq fsck --wait 0
    is "$(emq show q a --json | jq -r .state)" waiting
    redis DEL emq:q:meta
    expect 1 emq fsck q --wait 0
    says "1 queue checked, 1 found, 0 repaired"
    expect 1 emq fsck q --wait 0 --repair
    expect 0 emq fsck q --wait 0
}

@test "server: what is staged, or of another prefix, is no queue without settings" {
    on_server || skip "needs a server"
    echo '{"data":1}' >batch
    redis HSET emq::emq:x:staged:5 name x data 1 opts {} timestamp 1 emq:stage '5 1 emq::emq::stage:s'
    redis RPUSH emq:y:z:wait 1
    redis HSET emq:app:user name someone
    expect 0 emq fsck --wait 0
    says "0 queues checked, 0 found"
}

@test "server: a queue that BullMQ wrote is sound" {
    on_server || skip "needs a server"
    now=$(date +%s%3N)
    hash() { redis HSET "bull:q:$1" name plain data '{"a":1}' opts '{"attempts":0}' timestamp $now delay 0 priority 0 "${@:2}" >/dev/null; }
    redis HSET bull:q:meta opts.maxLenEvents 10000 version bullmq:6.7.0
    hash 1 && redis LPUSH bull:q:wait 1
    hash 2 delay 100000 && redis ZADD bull:q:delayed $(((now + 100000) * 4096)) 2
    hash 3 priority 5 && redis ZADD bull:q:prioritized 21474836481 3
    hash 4 finishedOn $now returnvalue null atm 1 ats 1 && redis ZADD bull:q:completed $now 4
    hash 5 finishedOn $now failedReason boom stacktrace '["x"]' && redis ZADD bull:q:failed $now 5
    hash 6 processedOn $now ats 1 pb wk && redis LPUSH bull:q:active 6 && redis SET bull:q:6:lock t PX 30000 && redis SADD bull:q:stalled 6
    hash 7 && redis ZADD bull:q:waiting-children $now 7 && redis SADD bull:q:7:dependencies bull:q:1
    hash repeat:tick:$now && redis LPUSH bull:q:wait repeat:tick:$now
    redis ZADD bull:q:repeat $now tick && redis HSET bull:q:repeat:tick name tick data '{}' every 60000 ic 1
    redis HSET bull:q:metrics:completed count 1 prevTS $now && redis HSET bull:q:metrics:failed count 1 prevTS $now
    redis SET bull:q:id 7 && redis SET bull:q:pc 1 && redis SET bull:q:de:x 1 PX 5000 && redis SET bull:q:stalled-check $now PX 30000
    redis ZADD bull:q:marker 0 0 && redis RPUSH bull:q:1:logs line
    redis XADD bull:q:events '*' event completed jobId 4 returnvalue null prev active
    expect 0 emq fsck --prefix bull
    expect 0 emq fsck q --prefix bull
}

@test "sqlite: a parent whose children are there, gone or done waits for those that are there" {
    on_server && skip "of the embedded store"
    emq add q 1 --id up --priority 3 >/dev/null
    emq add 'c:d' 1 --id low >/dev/null 2>&1 || emq add c.d 1 --id low >/dev/null
    sqlite3 queue.db "UPDATE emq_job SET state = 5, ord1 = timestamp_at_ms, side = 4 WHERE id = 'up';
        UPDATE emq_queue SET n_prioritized = 0, n_waiting_children = 1 WHERE name = 'q';
        INSERT INTO emq_dependency SELECT jid, 'emq:c.d:low', 1, 1, NULL FROM emq_job WHERE id = 'up'"
    expect 0 emq fsck --wait 0
    sqlite3 queue.db "INSERT INTO emq_dependency SELECT jid, 'emq:c.d:gone', 1, 1, NULL FROM emq_job WHERE id = 'up'"
    expect 1 emq fsck --wait 0 --repair --json
    is "$(jq -r '.flaw + " " + .id + " " + .outcome' <<<"$output")" "child up repaired"
    is "$(emq show q up --json | jq -r .state)" waiting-children
    expect 0 emq fsck --wait 0
    sqlite3 queue.db "DELETE FROM emq_job WHERE id = 'low'; UPDATE emq_queue SET n_waiting = 0, t_added = 0 WHERE name = 'c.d'"
    expect 1 emq fsck --wait 0 --repair
    is "$(emq show q up --json | jq -r .state)" prioritized
    expect 0 emq fsck --wait 0
}

@test "sqlite: what only who set it can set again is told and left" {
    on_server && skip "of the embedded store"
    for id in did a child; do emq add q 1 --id $id >/dev/null; done
    emq work q --max-jobs 1 --quiet -- true
    sqlite3 queue.db "UPDATE emq_job SET result_kind = 55 WHERE id = 'did';
        UPDATE emq_job SET parent = '{bad' WHERE id = 'child'; INSERT INTO emq_meta VALUES (1, 'concurrency', 'abc');
        INSERT INTO emq_marker VALUES (1, 'a', 5, 'mail', 7, 't', '', 1, 0, 9000000000000, 0, NULL);
        CREATE TRIGGER mine AFTER UPDATE ON emq_job BEGIN SELECT 1; END"
    expect 1 emq fsck --wait 0 --repair --json
    is "$(jq -r '.flaw + " " + (.id // "") + " " + .outcome' <<<"$output" | sort | tr '\n' ',')" \
        "effect a not repairable,record child not repairable,result did not repairable,setting  not repairable,trigger  not repairable,"
    [[ $output == *"mine on emq_job"* ]]
}

@test "sqlite: a queue that is marked as not there is found in the store and by its name" {
    on_server && skip "of the embedded store"
    emq add q 1 --id a >/dev/null
    sqlite3 queue.db "UPDATE emq_queue SET visible = 0, n_waiting = 9"
    expect 1 emq fsck q --wait 0 --json
    is "$(jq -r .flaw <<<"$output" | sort | tr '\n' ' ')" "counter hidden "
    expect 1 emq fsck --wait 0 --repair
    is "$(emq ls q --json | jq -r .id)" a
    expect 0 emq fsck --wait 0
}

@test "sqlite: jobs of no queue get one, and can be seen again" {
    on_server && skip "of the embedded store"
    furnish
    sqlite3 queue.db "INSERT INTO emq_queue (qid, prefix, name) VALUES (7, 'emq', 'other');
        UPDATE emq_job SET qid = 7 WHERE id = 'next'; DELETE FROM emq_queue WHERE qid = 7"
    expect 1 emq fsck --wait 0 --repair
    [[ $output == *"jobs belong to no queue"* ]]
    expect 0 emq fsck --wait 0
    is "$(emq ls lost-7 --json | jq -r .id)" next
}

@test "what can't be repaired without inventing something is told and left" {
    on_server && skip "of the embedded store"
    furnish
    sqlite3 queue.db "DELETE FROM emq_data"
    expect 1 emq fsck q --wait 0 --repair --json
    is "$(jq -r '.flaw + " " + .id + " " + .outcome' <<<"$output")" "data held not repairable"
    expect 1 emq fsck q --wait 0
}

@test "a job whose lock has ended counts only when no sweep takes it back" {
    emq add q 1 --id a >/dev/null
    hand_out 200ms
    until_true sh -c '[ "$(emq show q a --json | jq .lockLeftMs)" -le 0 ]'
    expect 1 emq fsck q --wait 0
    [[ $output == *"job a"*"(stalled)"* ]]
    emq sweep q >/dev/null
    expect 0 emq fsck q --wait 0
    hand_out 200ms
    { sleep 1 && emq sweep q; } >/dev/null 2>&1 &
    expect 0 emq fsck q
}

@test "bad input is named" {
    expect 64 emq fsck q --dry-run
    says "--dry-run goes with --repair"
    expect 64 emq fsck a:b
    expect 1 emq fsck nothing
    says "there is no queue nothing"
    emq add other 1 >/dev/null
    expect 1 emq fsck nothing --repair
    says "there is no queue nothing"
    expect 0 emq ls
    [[ $output != *nothing* ]]
}

@test "sound queues are silent while they are worked on and workers are killed" {
    for i in $(seq 200); do echo "{\"data\":$i,\"attempts\":5,\"priority\":$((i % 3)),\"delay\":$((i % 5 * 20))}"; done >batch
    emq add q --batch batch >/dev/null
    run_one() { exec emq work q --lock 500ms --stalled-interval 500ms --max-stalled 100 --concurrency 4 --quiet \
        -- sh -c '[ $(($$ % 7)) != 0 ]' 3>&-; }
    run_one 2>/dev/null &
    steady=$!
    for _ in 1 2 3 4 5 6; do
        run_one 2>/dev/null &
        victim=$!
        expect 0 emq fsck
        emq add q --batch batch >/dev/null
        kill -9 $victim
    done
    expect 0 emq fsck
    kill $steady
    wait $steady || :
    emq work q --exit-when-empty --stalled-interval 500ms --max-stalled 100 --concurrency 8 --quiet -- true
    expect 0 emq fsck --wait 0
    is "$(emq stats q --json | jq '.active + .waiting + .delayed + .prioritized')" 0
    is "$(emq stats q --json | jq -c '.totals | [.added, .completed + .failed]')" "[1400,1400]"
}

@test "repairs beside workers and adds: what is broken meanwhile is made good, each job runs once" {
    for i in $(seq 40); do echo "{\"data\":$i,\"priority\":$((i % 3)),\"delay\":$((i % 5 * 20))}"; done >batch
    plant() { # quietly breaks what nobody works on
        if on_server; then
            redis LPOP emq:q:wait
            redis ZPOPMAX emq:q:prioritized
            redis LPUSH emq:q:wait "ghost-$1"
            redis ZADD emq:q:delayed $((($(date +%s%3N) + 3600000) * 4096)) "ghost-$1-late"
            redis SET "emq:q:gone-$1:lock" x
        else
            sqlite3 -cmd '.timeout 10000' queue.db "UPDATE emq_job SET state = 9
                    WHERE jid = (SELECT max(jid) FROM emq_job WHERE state = 1);
                UPDATE emq_job SET side = side | 8 WHERE jid = (SELECT max(jid) FROM emq_job WHERE state = 4);
                UPDATE emq_queue SET n_waiting = n_waiting + 7, event_count = event_count + 1;
                INSERT INTO emq_log VALUES (900000 + $1, 1, 'x')"
        fi >/dev/null
    }
    emq add q --batch batch >/dev/null
    for _ in 1 2; do
        emq work q --concurrency 2 --stalled-interval 500ms --quiet -- sh -c 'echo "$EMQ_JOB_ID" >>did' 3>&- &
    done
    workers=$(jobs -p)
    for i in 1 2 3 4 5 6; do
        for _ in 1 2 3; do emq add q --batch batch >/dev/null; done &
        adder=$!
        plant "$i"
        emq fsck --repair --wait 2s --json >>found 2>>talk || is $? 1
        wait "$adder"
    done
    emq fsck --repair --wait 2s --json >>found 2>>talk || is $? 1
    [ "$(jq -s 'map(select(.outcome == "repaired")) | length' found)" -ge 12 ] || { cat found talk >&2; return 1; }
    is "$(jq -s 'map(select(.outcome != "repaired"))' found)" "[]"
    until_true sh -c '[ "$(emq stats q --json | jq ".waiting + .active + .delayed + .prioritized")" = 0 ]'
    kill $workers
    wait $workers || :
    expect 0 emq fsck --wait 0
    is "$(sort did | uniq -d)" ""
    is "$(wc -l <did | tr -d ' ')" 760
    is "$(emq stats q --json | jq -c '.totals.completed')" 760
}
