#!/usr/bin/env bats
# Effects that happen once: markers around commands, and what commits with the acknowledgement.
# shellcheck disable=SC2016 # the programs of workers expand their own variables
load common

on_server() { [ -n "${EMQ_TEST_SERVER:-}" ]; }
redis() { redis-cli -u "$EMQ_TEST_SERVER" "$@"; }

# A program of a worker: its script.
program() {
    { echo '#!/bin/sh'; cat; } >"$1"
    chmod +x "$1"
}
work_off() { timeout 60 emq work --exit-when-empty "$@"; }
# The script of a program whose effect is in the queue's own store.
own_effect() {
    if on_server; then
        echo 'echo "[\"INCR\",\"own:n\"]" >own.effect; echo "redis $PWD/own.effect" >&3'
    else
        echo 'echo "CREATE TABLE own (n);" >own.effect; echo "sql $PWD/own.effect" >&3'
    fi
}
lines() { if [ -e "$1" ]; then wc -l <"$1" | tr -d ' '; else echo 0; fi; }
is() { [ "$1" = "$2" ] || { echo "\"$1\" is not \"$2\"" >&2; return 1; }; }
# A member of a job, of the only marker of a job.
of_job() { emq show q "$1" --json | jq -r "$2"; }
marker() { emq effect show q "$1" --json | jq -r "$2"; }
# Takes a job by hand: TOKEN.
hand_out() { TOKEN=$(emq take q --lock "${1:-30s}" --json | jq -r .token); }
by_hand() { emq effect run pay --queue q --job a --token "$TOKEN" "$@"; }
# The hand-out of job a ends with its lock, and another one begins.
lose_the_lock() {
    until_true sh -c 'emq sweep q >/dev/null; [ "$(emq stats q --json | jq .waiting)" = 1 ]'
    OLD=$TOKEN
    hand_out
}
# Job a, whose effect "pay" was begun by a hand-out that is over: nobody knows.
in_doubt() {
    emq add q 1 --id a --backoff none >/dev/null
    hand_out 300ms
    expect 137 by_hand -- sh -c 'echo paid >>ledger; kill -9 $$'
    lose_the_lock
}

@test "the command is run once, and its stored output stands for it from then on" {
    program h <<'P'
r=$(emq effect run pay -- sh -c 'echo paid >>ledger; echo receipt 7') || exit
printf %s "$r"
[ "$EMQ_ATTEMPT" -gt 1 ] # the first attempt fails behind its effect
P
    emq add q 1 --id a --backoff none
    work_off q -- ./h
    is "$(lines ledger)" 1
    is "$(of_job a '[.state, .attemptsMade, .returnvalue] | @csv')" '"completed",2,"receipt 7"'
    is "$(marker a '.step + " " + .state + " " + .result')" "pay done receipt 7"
}

@test "a command that fails has not happened: its code is ours, and it is run again" {
    emq add q 1 --id a
    hand_out
    expect 3 by_hand -- sh -c 'echo try >>tries; exit 3'
    expect 1 emq effect show q a
    says "no marker"
    expect 0 by_hand -- sh -c 'echo try >>tries; echo fine'
    is "$output" fine
    is "$(lines tries)" 2
}

@test "a command that can't be found has not happened" {
    emq add q 1 --id a
    hand_out
    code=0
    by_hand -- no-such-command 2>err || code=$?
    is "$code" 127
    grep -q no-such-command err
    expect 1 emq effect show q a
}

@test "a reader that has gone does not undo the effect" {
    emq add q 1 --id a
    hand_out
    { by_hand -- sh -c 'echo paid >>ledger; seq 100000' 2>err || echo $? >code; } | true
    is "$(cat code)" 74
    grep -q "pay is done and recorded.*: Broken pipe" err
    is "$(lines ledger) $(marker a .state)" "1 done"
}

@test "an effect that has happened and can't be recorded is in doubt, and says so" {
    emq add q 1 --id a
    hand_out
    if on_server; then
        expect 79 by_hand -- sh -c 'echo paid >>ledger; redis-cli -u "$EMQ_TEST_SERVER" config set requirepass x
            redis-cli -u "$EMQ_TEST_SERVER" -a x client kill type normal' 2>/dev/null
        redis -a x --no-auth-warning config set requirepass ''
    else
        expect 79 by_hand -- sh -c 'echo paid >>ledger; sqlite3 queue.db "drop table emq_marker"'
    fi
    says "pay has happened, and may or may not be recorded: "
    is "$(lines ledger)" 1
}

@test "an ignored SIGCHLD does not make a failure a success" {
    emq add q 1 --id a
    hand_out
    expect 3 bash -c 'trap "" CHLD; exec "$@"' - emq effect run pay --queue q --job a --token "$TOKEN" -- sh -c 'exit 3'
    expect 1 emq effect show q a
}

@test "standard input is the command's" {
    emq add q 'the data' --id a
    work_off q -- emq effect run pay -- sh -c 'cat >got'
    is "$(cat got)" "the data"
}

@test "a command that a signal ends is in doubt, and the same hand-out is not let in again" {
    emq add q 1 --id a
    hand_out
    expect 137 by_hand -- sh -c 'kill -9 $$'
    says "in doubt: signal 9"
    is "$(marker a .state)" busy
    expect 75 by_hand -- touch ran
    says "this hand-out"
    [ ! -e ran ]
    expect 75 emq effect check pay --queue q --job a
}

@test "a signal that ended a program of the command, as a shell tells of it, leaves it in doubt" {
    emq add q 1 --id a
    hand_out
    expect 137 by_hand -- sh -c 'sh -c "kill -9 \$\$"; exit $?'
    says "in doubt: signal 9"
    is "$(marker a .state)" busy
}

@test "in doubt it is done again by default, which says so" {
    in_doubt
    expect 79 emq effect check pay --queue q --job a
    expect 0 by_hand -- sh -c 'echo paid >>ledger; echo second'
    says "may have happened; it is done again (the default"
    is "$output" second
    is "$(lines ledger)" 2
    expect 0 emq effect check pay --queue q --job a
    is "$output" second
}

@test "--policy redo says less, and skip counts it as done" {
    in_doubt
    expect 0 by_hand --policy skip -- touch ran
    is "$output" ""
    is "$(lines ledger)" 1
    [ ! -e ran ]
    is "$(marker a .state)" "done"
}

@test "--policy park fails the job for good until somebody looks" {
    program h <<'P'
exec emq effect run pay --policy park -- sh -c 'echo paid >>ledger; kill -9 $$'
P
    emq add q 1 --id a --backoff none --attempts 9
    expect 1 work_off q -- ./h
    is "$(of_job a '[.state, .attemptsMade] | @csv')" '"failed",2'
    [[ $(of_job a .failedReason) == *"exited with 100"*"in doubt and parked"*"emq effect resolve q a pay"* ]]
    # Whole where 200 bytes are kept of it, with usual names.
    [[ $(of_job a .failedReason) == *"and emq retry" ]]
    [ "$(of_job a '.failedReason | length')" -lt 130 ]
    is "$(lines ledger)" 1
    # It had happened.
    emq effect resolve q a pay --done 'receipt 7'
    expect 1 emq retry q a
    says "--keep-effect"
    emq retry q a --keep-effect
    work_off q -- ./h
    is "$(of_job a '.state + " " + .returnvalue')" "completed receipt 7"
    is "$(lines ledger)" 1
}

@test "what an administrator forgets is done anew" {
    in_doubt
    emq effect resolve q a pay --forget
    expect 0 by_hand --policy park -- sh -c 'echo paid >>ledger'
    is "$(lines ledger)" 2
    expect 1 emq effect resolve q a other --forget
    says "no such marker"
    expect 64 emq effect resolve q a pay
    says "--done, --forget"
}

@test "--probe: it happened, and what the probe prints is the result" {
    in_doubt
    expect 0 by_hand --probe 'tail -n1 ledger' -- touch ran
    is "$output" paid
    [ ! -e ran ]
    is "$(marker a '.state + .result')" donepaid
}

@test "--probe: it did not happen, so it is done now" {
    in_doubt
    expect 0 by_hand --policy probe --probe 'grep -q absent ledger' -- echo now
    is "$output" now
}

@test "--probe: no answer parks" {
    in_doubt
    expect 100 by_hand --probe 'exit 2' -- touch ran
    expect 100 by_hand --probe 'kill -9 $$' -- touch ran
    [ ! -e ran ]
    is "$(marker a .state)" in-doubt
}

@test "a former owner is told so, and nothing is run" {
    in_doubt
    NEW=$TOKEN TOKEN=$OLD
    expect 1 by_hand -- touch ran
    says "not this hand-out's any more"
    [ ! -e ran ]
    TOKEN=$NEW
    expect 0 by_hand -- true
    TOKEN=$OLD
    expect 1 by_hand -- touch ran
    [ ! -e ran ]
}

@test "a lock that is lost while the command runs leaves it in doubt" {
    emq add q 1 --id a
    hand_out 300ms
    expect 1 by_hand -- sh -c 'until emq sweep q --json | grep -q "\"recovered\":1"; do sleep 0.05; done; echo done'
    says "could not be recorded"
    is "$(marker a .state)" in-doubt
}

@test "one KEY with another --payload is refused for good" {
    emq add q 1 --id a --attempts 5
    hand_out
    expect 0 by_hand --payload '7 EUR' -- echo ok
    expect 65 by_hand --payload '8 EUR' -- echo ok
    says "one name for two effects"
    echo '7 EUR' >same && printf %s '7 EUR' >file
    expect 0 by_hand --payload @file -- echo other
    is "$output" ok
    expect 0 by_hand --payload "" -- echo other
    is "$output" ok
}

@test "a retry asks what shall become of a recorded effect" {
    program h <<'P'
emq effect run pay -- sh -c 'echo "$EMQ_IDEMPOTENCY_KEY" >>ledger'
P
    emq add q 1 --id a
    work_off q -- ./h
    expect 1 emq retry q a --json
    is "$(field .outcome)" refused
    [[ $(field .reason) == *--redo* ]]
    expect 64 emq retry q a --redo --keep-effect
    expect 0 emq retry q --state completed
    says "1 job stays completed: "
    emq retry q a --keep-effect
    work_off q -- ./h
    is "$(lines ledger)" 1
    emq retry q --state completed --redo
    work_off q -- ./h
    is "$(lines ledger)" 2
    is "$(sort -u ledger | lines /dev/stdin)" 2
}

@test "a dry run of a retry counts what the retry would do" {
    emq add q 1 --id a --attempts 1
    emq add q 1 --id b --attempts 1
    expect 1 work_off q -- sh -c '[ "$EMQ_JOB_ID" = b ] || emq effect run pay -- true; exit 65'
    expect 0 emq retry q --all --dry-run
    says "1 job would be retried"
    says "1 job stays failed: "
    expect 0 emq retry q --all --redo --dry-run
    [[ $stderr != *stay* ]]
    expect 1 emq retry q a --dry-run
    says "--keep-effect"
    expect 0 emq retry q b --dry-run
    expect 0 emq retry q --all --redo --dry-run
    says "2 jobs would be retried"
    expect 0 emq retry q --all --json
    is "$(field .count)" 1
    expect 0 emq retry q --all --dry-run --json
    is "$(field .count)" 0
    expect 0 emq retry q --all
    says "0 jobs retried"
    says "1 job stays failed: "
}

@test "a custom id used again is another job" {
    emq add q 1 --id a
    work_off q -- emq effect run pay -- sh -c 'echo paid >>ledger'
    emq rm q a
    emq add q 1 --id a
    expect 1 emq effect check pay --queue q --job a
    work_off q -- emq effect run pay -- sh -c 'echo paid >>ledger'
    is "$(lines ledger)" 2
    is "$(emq effect ls q a --json | jq -r .timestamp | sort -u | lines /dev/stdin)" 2
}

@test "markers are listed and shown, as text and as JSON" {
    emq add q 1 --id a
    work_off q -- sh -c 'emq effect run mail -- echo sent; emq effect run pay -- echo paid'
    expect 0 emq effect ls q
    [[ ${lines[0]} == "JOB KEY"*TOKEN && ${lines[1]} == "a   mail done"* ]]
    expect 0 emq effect ls q --json
    is "$(jq -r '[.queue, .id, .step, .state] | join(" ")' <<<"$output")" $'q a mail done\nq a pay done'
    is "$(jq -c keys <<<"${lines[0]}")" \
        '["claimedAt","doneAt","expiresAt","id","queue","result","state","step","timestamp","token"]'
    expect 0 emq effect show q a pay
    [[ $output == *"state:   done"*"result:  paid"* && $output != *mail* ]]
    expect 0 emq effect ls other
    expect 1 emq effect show q nobody
    expect 1 emq effect check pay --queue q --job nobody
    expect 1 emq effect check other --queue q --job a --json
    is "$(field .state)" none
}

@test "the marker of an effect without a KEY, and an id that is no ASCII, are shown as what they are" {
    emq add q 1 --id jürgen
    work_off q -- sh -c 'emq effect run pay -- true'
    expect 0 emq effect ls q
    [[ ${lines[1]} == "jürgen pay done"* ]]
    emq add kürbis 1 >/dev/null
    expect 0 emq ls
    [[ $output == *"kürbis "* ]]
    emq add own 1 --id a
    work_off own -- sh -c "$(own_effect)"
    expect 0 emq effect show own a
    [[ ${lines[0]} == "state:   done" ]]
    expect 0 emq why own a
    [[ $output == *": the effect of the job is recorded as done"* && $output != *"effect  "* ]]
    emq effect resolve own a --forget
    expect 0 emq why own a
    [[ $output == *"the effect of the job was settled as not done by "* ]]
}

@test "output beyond 1 MiB is passed on whole and stored in part" {
    emq add q 1 --id a
    hand_out
    expect 0 by_hand -- sh -c 'head -c 1100000 /dev/zero | tr "\0" x'
    says "the rest is not stored"
    is "${#output}" 1100000
    is "$(marker a '.result | length')" 1048576
}

@test "without the store the command is not run" {
    expect 69 emq --url redis://127.0.0.1:1 effect run pay --queue q --job a --token t -- touch ran
    [ ! -e ran ]
}

@test "the command line of effect is checked" {
    expect 64 env -u EMQ_JOB_ID emq effect run pay -- true
    says "of which job?"
    expect 64 emq effect run pay --queue q --job a -- true
    says "--token is missing"
    expect 64 emq effect run
    expect 64 emq effect run pay
    says "the command is missing"
    expect 64 emq effect run pay --policy maybe -- true
    says "redo, skip, park, probe"
    expect 64 emq effect run pay --policy probe -- true
    says "--probe CMD"
    expect 64 emq effect run pay --policy skip --probe true -- true
    expect 64 emq effect run 'two words' --queue q --job a --token t -- true
    says "two words"
    expect 64 emq effect frob q
    says "none of run, check, ls, show, resolve"
    expect 64 emq effect ls q a b
    expect 64 emq effect ls q -- true
}

# ---- killed at each point ------------------------------------------------------------------

# What a worker that dies where the program says leaves, a second one ends. The first is killed by its program.
two_workers() {
    emq add q 1 --id a --backoff none >/dev/null
    run timeout 60 emq work q --lock 400ms --max-jobs 1 -- "$@"
    [ "$status" -eq 137 ] || { echo "the first worker ended with $status: $output" >&2; return 1; }
    work_off q --lock 400ms --stalled-interval 100ms -- "$@"
    is "$(of_job a .state)" completed
}
# The worker is the parent of the supervisor of this program's session: found by its name in the environment.
kill_once='[ -e killed ] || { touch killed; kill -9 "${EMQ_WORKER_PID:?}"; sleep 60; }'

@test "kill -9 before the claim: one effect" {
    program h <<P
EMQ_WORKER_PID=\$PPID
$kill_once
emq effect run pay -- sh -c 'echo paid >>ledger'
P
    two_workers ./h
    is "$(lines ledger)" 1
}

@test "kill -9 between the claim and the effect: one effect" {
    program h <<P
export EMQ_WORKER_PID=\$PPID
emq effect run pay -- sh -c '$kill_once; echo paid >>ledger'
P
    two_workers ./h
    is "$(lines ledger)" 1
}

@test "kill -9 between the effect and its record: by the policy, one or two effects" {
    for policy in redo skip; do
        program h <<P
export EMQ_WORKER_PID=\$PPID
emq effect run pay --policy $policy -- sh -c 'echo paid >>ledger; $kill_once'
P
        two_workers ./h
        is "$policy $(lines ledger)" "$policy $([ $policy = skip ] && echo 1 || echo 2)"
        rm ledger killed
        emq rm q a
    done
}

@test "kill -9 between the record and the acknowledgement: one effect" {
    program h <<P
EMQ_WORKER_PID=\$PPID
emq effect run pay -- sh -c 'echo paid >>ledger'
$kill_once
P
    two_workers ./h
    is "$(lines ledger)" 1
}

@test "kill -9 behind the acknowledgement: nothing runs again" {
    emq add q 1 --id a
    program h <<'P'
echo run >>runs
emq effect run pay -- sh -c 'echo paid >>ledger'
P
    expect 137 env EMQ_CRASH_AT=P4 emq work q --lock 400ms -- ./h
    work_off q --stalled-interval 100ms -- ./h
    is "$(lines runs) $(lines ledger) $(of_job a .state)" "1 1 completed"
}

# ---- together with the acknowledgement -----------------------------------------------------

needs_file() { on_server && skip "needs the embedded store" || :; }
needs_server() { on_server || skip "needs a server"; }
sql() { sqlite3 -cmd '.timeout 5000' queue.db "$@"; }

@test "sql FILE is done with the acknowledgement" {
    needs_file
    sql 'create table ledger(job, key primary key)'
    program h <<'P'
echo "insert into ledger values('$EMQ_JOB_ID', '$EMQ_IDEMPOTENCY_KEY');" >effect.sql
echo "sql $PWD/effect.sql" >&3
echo '{"rows":1}'
P
    emq add q 1 --id a
    work_off q -- ./h
    is "$(sql 'select job from ledger')" a
    is "$(of_job a '[.state, .returnvalue.rows] | @csv')" '"completed",1'
    is "$(marker a .state)" "done"
}

@test "sql FILE: several files are one effect, and the end of one is not the beginning of the next" {
    needs_file
    sql 'create table t(n)'
    printf 'insert into t values(1); /* end' >a.sql
    printf 'insert into t values(2)' >b.sql
    printf 'insert into t values(3);' >c.sql
    emq add q 1 --id a
    work_off q -- sh -c 'for f in a b c; do echo "sql $f.sql" >&3; done'
    is "$(of_job a .state) $(sql 'select group_concat(n) from t')" "completed 1,2,3"
    echo ' where 0;' >b.sql
    printf 'update t set n = 0' >a.sql
    emq add q 1 --id b --attempts 1
    expect 1 work_off q -- sh -c 'for f in a b; do echo "sql $f.sql" >&3; done'
    [[ $(of_job b .failedReason) == *"file 2 of 2, statement 1"* ]]
    is "$(sql 'select group_concat(n) from t')" "1,2,3"
}

@test "a line on descriptor 3 that may have asked for an effect fails the attempt" {
    emq add q 1 --id a --attempts 1
    for line in "sql $UNSET" "redis" "SQL effect.sql" "sqll effect.sql"; do
        export line
        expect 1 work_off q -- sh -c 'echo "$line" >&3'
        is "$(of_job a .state)" failed
        [[ $(of_job a .failedReason) == "a line on descriptor 3 was not understood: \"$line\""* ]]
        emq retry q a
    done
    work_off q -- sh -c 'echo "progress x" >&3'
    is "$(of_job a .state)" completed
}

@test "sql FILE, redis FILE: an empty file is no effect, and refused for good" {
    : >effect
    kind=sql
    if on_server; then kind=redis; fi
    export kind
    emq add q 1 --id a --attempts 9 --backoff none
    expect 1 work_off q -- sh -c 'echo "$kind effect" >&3'
    is "$(of_job a '[.state, .attemptsMade] | @csv')" '"failed",1'
    [[ $(of_job a .failedReason) == *"there is no "*" in it"* ]]
}

@test "sql FILE: what fails leaves nothing, and the attempt has failed" {
    needs_file
    sql 'create table ledger(job)'
    emq add q 1 --id a --attempts 1
    echo "insert into ledger values(1); insert into nowhere values(2);" >effect.sql
    expect 1 work_off q -- sh -c 'echo "sql effect.sql" >&3'
    is "$(of_job a .state)" failed
    [[ $(of_job a .failedReason) == *"statement 2: no such table: nowhere"* ]]
    is "$(sql 'select count(*) from ledger')" 0
}

@test "sql FILE: a call that would take too long is refused for good, and TERM ends a worker in a long one" {
    needs_file
    sql 'create table ledger(job)'
    many="replace(hex(zeroblob(4000000)), '00', 'aa')"
    echo "insert into ledger values(1); select $many like '%' || substr($many, 1, 40000) || 'b';" >effect.sql
    emq add q 1 --id a --attempts 9 --backoff none
    expect 1 work_off q -- sh -c 'echo "sql effect.sql" >&3'
    is "$(of_job a '[.state, .attemptsMade] | @csv')" '"failed",1'
    [[ $(of_job a .failedReason) == *"LIKE or GLOB with a pattern of more than 100 bytes"* ]]
    echo "with recursive c(n) as (select 1 union all select n + 1 from c)
        select $many like '%' || substr($many, 1, 98) || 'b' from c;" >effect.sql
    emq add q 1 --id b --attempts 1000 --backoff none
    emq work q --quiet -- sh -c 'echo "sql effect.sql" >&3; touch begun' 3>&- &
    until_true test -e begun
    kill -TERM $!
    until_true sh -c '! kill -0 "$1" 2>/dev/null' - $!
    wait $! || :
    is "$(sql 'select count(*) from ledger')" 0
}

@test "sql FILE: our tables and transactions are refused, for good" {
    needs_file
    for text in "delete from emq_job" "commit" "attach ':memory:' as x" "pragma user_version = 9"; do
        echo "$text" >effect.sql
        emq add q 1 --id a --attempts 9 --backoff none >/dev/null
        expect 1 work_off q -- sh -c 'echo "sql effect.sql" >&3'
        is "$(of_job a '[.state, .attemptsMade] | @csv')" '"failed",1'
        emq rm q a
    done
}

@test "sql FILE: a worker that dies before the acknowledgement has made no effect" {
    needs_file
    sql 'create table ledger(job)'
    echo "insert into ledger values(1)" >effect.sql
    for point in P2 P3 P4; do
        emq add q 1 --id a >/dev/null
        expect 137 env EMQ_CRASH_AT=$point emq work q --lock 400ms -- sh -c 'echo "sql effect.sql" >&3'
        work_off q --lock 400ms --stalled-interval 100ms -- sh -c 'echo "sql effect.sql" >&3'
        is "$point $(sql 'select count(*) from ledger')" "$point 1"
        is "$(of_job a .state)" completed
        emq rm q a
        sql 'delete from ledger'
    done
}

@test "redis FILE is done with the acknowledgement" {
    needs_server
    emq add q 1 --id a
    printf '["INCRBY","hits","3"]\n\n["HSET","last","job","a b"]\n' >effect.txt
    work_off q -- sh -c 'echo "redis effect.txt" >&3; echo fine'
    is "$(redis get hits) $(redis hget last job)" "3 a b"
    is "$(of_job a '.state + " " + .returnvalue')" "completed fine"
    for point in P2 P3 P4; do
        emq add q 1 --id b >/dev/null
        redis set hits 0
        expect 137 env EMQ_CRASH_AT=$point emq work q --lock 400ms -- sh -c 'echo "redis effect.txt" >&3'
        work_off q --lock 400ms --stalled-interval 100ms -- sh -c 'echo "redis effect.txt" >&3'
        is "$point $(redis get hits)" "$point 3"
        emq rm q b
    done
}

@test "redis FILE: what can be known to fail is refused before the first command" {
    needs_server
    redis set text words
    for bad in '["LPUSH","text","1"]' '["DEL","emq:q:wait"]' '["GET","hits"]' '{"no":"array"}' '["INCR","text"]'; do
        emq add q 1 --id a --attempts 9 --backoff none >/dev/null
        printf '["INCR","hits"]\n%s\n' "$bad" >effect.txt
        expect 1 work_off q -- sh -c 'echo "redis effect.txt" >&3'
        is "$bad $(of_job a '[.state, .attemptsMade] | @csv')" "$bad \"failed\",1"
        is "$(redis exists hits)" 0
        emq rm q a
    done
}

@test "a kept program names its files in lines, each for the job that it has" {
    program h <<'P'
while IFS= read -r line; do
    id=$(jq -r .id <<<"$line")
    if [ "$WORD" = sql ]; then
        echo "insert into ledger values('$id')" >"$id.effect"
    else
        printf '["RPUSH","ledger","%s"]\n' "$id" >"$id.effect"
    fi
    case $id in
    none) echo '{"result":0}' ;;
    bad) printf '{"%s":"none.such","result":1}\n' "$WORD" ;;
    *) printf '{"%s":"%s.effect"}\n{"result":1}\n' "$WORD" "$id" ;;
    esac
done
P
    sed -i '1s/.*/#!\/bin\/bash/' h
    WORD=$(on_server && echo redis || echo sql)
    export WORD
    on_server || sql 'create table ledger(job)'
    for id in a none b bad c; do emq add q 1 --id "$id" --attempts 1; done
    expect 1 work_off q --stream -- ./h
    is "$(emq stats q --json | jq -c '[.completed, .failed]')" "[4,1]"
    [[ $(of_job bad .failedReason) == *"none.such"*"No such file"* ]]
    if on_server; then
        is "$(redis lrange ledger 0 -1 | paste -sd' ')" "a b c"
    else
        is "$(sql 'select job from ledger' | paste -sd' ')" "a b c"
    fi
    is "$(emq effect show q a --json | jq -r .state)" "done"
    expect 1 emq effect show q none
}

@test "an effect of the other store is refused for good" {
    echo 'select 1' >effect
    word=$(on_server && echo sql || echo redis)
    [ "$word" = sql ] || echo '["INCR","n"]' >effect
    emq add q 1 --id a --attempts 9 --backoff none
    expect 1 work_off q -- sh -c "echo '$word effect' >&3"
    [[ $(of_job a '[.state, .attemptsMade, .failedReason] | @csv') == '"failed",1,'*"can't commit with"* ]]
}
