-- name: take
select pg_try_advisory_lock(7302) as taken

-- name: still_here
select 1
