-- name: take
select pg_try_advisory_lock(7302) as taken

-- name: still_here
select 1

-- name: holder
select coalesce(held_by.application_name, '') as name
from pg_locks held
join pg_stat_activity held_by on held_by.pid = held.pid
where held.locktype = 'advisory' and held.granted and held.classid = 0 and held.objid = 7302 and held.objsubid = 1
  and held.database = (select oid from pg_database where datname = current_database())
