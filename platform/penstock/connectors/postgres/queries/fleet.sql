-- name: save
insert into worker_lease (worker, report, seen_at)
select * from unnest($1::text[], $2::jsonb[], $3::double precision[])
on conflict (worker) do update set report = excluded.report, seen_at = excluded.seen_at
where worker_lease.seen_at <= excluded.seen_at

-- name: load
select worker, report, seen_at from worker_lease where seen_at >= $1 order by worker

-- name: forget
delete from worker_lease where seen_at < $1
