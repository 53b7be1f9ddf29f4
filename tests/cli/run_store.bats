# `emq run` while the store fails: it looks as long as it was told to, and ends.
load common

@test "run ends with 125 and the store's message when the take fails" {
    emq add q x >/dev/null
    sqlite3 queue.db "create trigger no before update on emq_job begin select raise(abort, 'no takes today'); end"
    for wait in "" "--wait 0s" "--wait 50ms"; do
        # shellcheck disable=SC2086 # two words or none
        expect 125 timeout 60 emq run q $wait -- touch ran
        says "no takes today"
        [ ! -e ran ]
    done
}

@test "run takes the job when the store is well again before its wait is over" {
    emq add q x >/dev/null
    sqlite3 queue.db "create trigger no before update on emq_job begin select raise(abort, 'no takes today'); end"
    emq run q --wait 5m -- touch ran 2>err &
    until_true grep -q "no takes today" err
    sqlite3 -cmd '.timeout 5000' queue.db "drop trigger no"
    wait $!
    [ -e ran ]
}

@test "run ends with 125 while another program holds the store" {
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
