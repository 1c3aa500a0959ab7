-- name: begin
insert into runner (name, started_at, seen_at)
select $1, at, at from extract(epoch from clock_timestamp()) as now (at)
returning id, seen_at

-- name: lock
select pg_try_advisory_lock(7307, $1::int) as taken

-- name: confirm
update runner set seen_at = extract(epoch from clock_timestamp()) where id = $1 returning id, seen_at

-- name: end
delete from runner
where id = $1 and not exists (select from job where state = 'running' and runner = $1)

-- name: others
select id, seen_at < extract(epoch from clock_timestamp()) - $2::double precision as is_late, exists (
    select from pg_locks
    where locktype = 'advisory' and classid = 7307 and objid = runner.id and objsubid = 2 and granted
      and database = (select oid from pg_database where datname = current_database())) as is_locked
from runner
where id <> $1
order by id

-- name: take_over
select state, jobs from job_take_over($1, $2)
