-- name: alone
select pg_advisory_xact_lock(7304)
