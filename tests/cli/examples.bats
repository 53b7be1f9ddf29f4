#!/usr/bin/env bats
# The examples of effects, one for each strength: killed between the effect and the acknowledgement, then run
# again. Each effect happens once.
load common

ROOT=$BATS_TEST_DIRNAME/../..
is() { [ "$1" = "$2" ] || { echo "\"$1\" is not \"$2\"" >&2; return 1; }; }

jobs_of_money() {
    emq add q 700 --id a
    emq add q 50 --id b
}
all_completed() { is "$(emq stats q --json | jq -c '[.completed, .waiting, .active, .failed]')" '[2,0,0,0]'; }
# Dies at P3, the gap, and is run again.
killed_in_the_gap() {
    run env EMQ_CRASH_AT=P3 "$@"
    is "$status" 137
    timeout 60 "$@"
    all_completed
}
handler_killed_in_the_gap() {
    expect 137 env EMQ_CRASH_AT=P3 emq work q --lock 400ms -- "$@"
    timeout 60 emq work q --lock 400ms --stalled-interval 100ms --exit-when-empty -- "$@"
}

@test "strength 0: a file that is renamed is the same twice" {
    jobs_of_money
    handler_killed_in_the_gap "$ROOT/examples/handlers/upsert.sh"
    all_completed
    is "$(cat a.txt) $(cat b.txt) $(echo *.txt*)" "700 50 a.txt b.txt"
}

@test "strength 1 on SQLite: a row in the queue's own file" {
    [ -z "${EMQ_TEST_SERVER:-}" ] || skip "needs the embedded store"
    jobs_of_money
    killed_in_the_gap "$EMQ_DIR/examples/example_effect_sqlite" queue.db q
    is "$(sqlite3 queue.db 'select group_concat(job || cents) from (select * from bookings order by job)')" a700,b50
}

@test "strength 1 on Redis: commands in the script of the acknowledgement" {
    [ -n "${EMQ_TEST_SERVER:-}" ] || skip "needs a server"
    jobs_of_money
    killed_in_the_gap "$EMQ_DIR/examples/example_effect_redis" "$EMQ_URL" q
    is "$(redis-cli -u "$EMQ_URL" get bank:cents) $(redis-cli -u "$EMQ_URL" llen bank:jobs)" "750 2"
}

@test "strength 2 on SQLite: an inbox beside the effect" {
    jobs_of_money
    killed_in_the_gap "$EMQ_DIR/examples/example_inbox_sqlite" app.db q
    is "$(sqlite3 app.db 'select count(*), sum(cents) from bookings')" "2|750"
    is "$(sqlite3 app.db 'select count(*) from emq_inbox')" 2
}

# A server of this test's own, on a socket in its folder; PostgreSQL does not run as root.
postgres() {
    local bin
    bin=$(ls -d /usr/lib/postgresql/*/bin 2>/dev/null | tail -n1)
    [ -x "$EMQ_DIR/examples/example_inbox_postgres" ] && [ -x "$bin/postgres" ] || skip "needs PostgreSQL and libpq-dev"
    as=()
    if [ "$(id -u)" = 0 ]; then
        chmod 711 "$BOX"
        install -d -o nobody "$BOX/pg"
        as=(setpriv --reuid nobody --clear-groups)
    else
        mkdir "$BOX/pg"
    fi
    (
        cd pg
        "${as[@]}" "$bin/initdb" -D data -A trust -U app --no-sync >init.log
        exec "${as[@]}" "$bin/postgres" -D data -k "$BOX/pg" -c listen_addresses= -c fsync=off
    ) >pg.log 2>&1 3>&- &
    until_true "$bin/pg_isready" -q -h "$BOX/pg"
    CONNINFO="host=$BOX/pg user=app dbname=postgres"
}

@test "strength 2 on PostgreSQL: an inbox beside the effect" {
    postgres
    jobs_of_money
    killed_in_the_gap "$EMQ_DIR/examples/example_inbox_postgres" "$CONNINFO" q
    is "$(psql "$CONNINFO" -Atc 'select count(*), sum(cents) from bookings')" "2|750"
    is "$(psql "$CONNINFO" -Atc 'select count(*) from emq_inbox')" 2
    kill -INT "$!" 2>/dev/null || :
}

@test "strength 3: a marker around a mail" {
    printf '#!/bin/sh\n{ cat; echo; } >>"%s"\n' "$BOX/sent" >mailer
    chmod +x mailer
    jobs_of_money
    MAILER=$BOX/mailer handler_killed_in_the_gap "$ROOT/examples/handlers/marker.sh"
    all_completed
    is "$(sort sent | tr '\n' ' ')" "50 700 "
}

@test "strength 4: a provider that honours keys" {
    mkfifo url
    python3 "$ROOT/examples/handlers/payments.py" "$BOX/ledger" >url 3>&- &
    read -r PAYMENTS <url
    export PAYMENTS
    jobs_of_money
    handler_killed_in_the_gap "$ROOT/examples/handlers/pay.sh"
    all_completed
    is "$(sort ledger | tr '\n' ' ')" "50 700 "
    is "$(emq show q a --json | jq -r .returnvalue.receipt)" 1
    kill "$!"
}
