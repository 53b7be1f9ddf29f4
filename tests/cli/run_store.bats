# `emq run` while the store fails: it looks as long as it was told to, and ends.
load common

on_server() { redis-cli -u "$EMQ_TEST_SERVER" "$@" >/dev/null; }

# No job of queue q can be taken, and the store says why. A queue that was paused is not any more.
break_store() {
    if [ -n "${EMQ_TEST_SERVER:-}" ]; then
        on_server rename emq:q:wait aside
        on_server set emq:q:wait "no list"
        on_server hdel emq:q:meta paused
        on_server zadd emq:q:marker 0 0
        reason="is a string and not a list"
    else
        sqlite3 queue.db "create trigger no before update on emq_job begin select raise(abort, 'no takes today'); end"
        emq resume q
        reason="no takes today"
    fi
}

mend_store() {
    if [ -n "${EMQ_TEST_SERVER:-}" ]; then
        on_server rename aside emq:q:wait
    else
        sqlite3 -cmd '.timeout 5000' queue.db "drop trigger no"
    fi
}

@test "run ends with 125 and the store's message when the take fails" {
    emq add q x >/dev/null
    break_store
    for wait in "" "--wait 0s" "--wait 50ms"; do
        # shellcheck disable=SC2086 # two words or none
        expect 125 timeout 60 emq run q $wait -- touch ran
        says "$reason"
        [ ! -e ran ]
    done
}

@test "run takes the job when the store is well again before its wait is over" {
    emq add q x >/dev/null
    emq pause q
    emq run q -v --wait 5m -- touch ran 2>err &
    until_true grep -q ready err
    break_store
    until_true grep -q "$reason" err
    mend_store
    wait $!
    [ -e ran ]
}

@test "run ends with 125 while another program holds the store" {
    without_server "nobody can hold a server for long"
    emq add q x >/dev/null
    mkfifo hold
    sqlite3 queue.db <hold >held &
    exec 7>hold
    echo "begin immediate; select 'held';" >&7
    until_true grep -q held held
    expect 125 timeout 120 emq run q -- touch ran 7>&-
    says "another program holds the file"
    [ ! -e ran ]
    exec 7>&-
    wait
    expect 0 emq run q -- touch ran
    [ -e ran ]
}
