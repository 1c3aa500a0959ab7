-- name: tell
select pg_notify($1, $2)

-- name: still_here
select 1
