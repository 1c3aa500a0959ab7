-- name: alone
select pg_advisory_xact_lock(7308)

-- name: tail
select number, hash from public.audit_link order by number desc limit 1

-- name: newest_head
select head, signature from public.audit_segment order by "last" desc limit 1

-- name: pending
select e.id, e.at, e.who, e.what, e.target, e.detail, e.tenant
from public.audit_pending p join public.audit_event e on e.id = p.event
order by p.event limit $1

-- name: link
insert into public.audit_link (number, event, hash) select * from unnest($1::bigint[], $2::bigint[], $3::bytea[])

-- name: linked
delete from public.audit_pending where event = any($1::bigint[])

-- name: hash
select hash from public.audit_link where number = $1

-- name: close
insert into public.audit_segment ("last", "first", head, signature) values ($1, $2, $3, $4) on conflict do nothing

-- name: unshipped
select head, signature from public.audit_segment where shipped_at = 0 order by "last" limit $1

-- name: count_unshipped
select count(*)::bigint as segments from public.audit_segment where shipped_at = 0

-- name: shipped
update public.audit_segment set shipped_at = extract(epoch from clock_timestamp()) where "last" = $1 and shipped_at = 0

-- name: old
select "last", shipped_at > 0 and shipped_at < extract(epoch from clock_timestamp()) - $1::double precision as is_old
from public.audit_segment where moved_at = 0 order by "last" limit 1

-- name: move
select public.audit_move($1)

-- name: links
select l.number, l.event, l.hash, e.id, e.at, e.who, e.what, e.target, e.detail, e.tenant
from public.audit_link l left join public.audit_event e on e.id = l.event
where l.number >= $1 and l.number <= $2 order by l.number limit $3

-- name: still
-- No operator or function of another schema is a better match than the server's own.
set transaction isolation level repeatable read, read only;
set local search_path = pg_catalog, pg_temp

-- name: strange
select name from unnest($1::text[]) as name
where not exists (select from pg_class where relnamespace = 'public'::regnamespace and relname = name and relkind = 'r')

-- name: segments
select head, signature, "first", "last", closed_at, shipped_at, moved_at from public.audit_segment order by "last"

-- name: strays
select e.id from public.audit_event e
where not exists (select from public.audit_link l where l.event = e.id)
  and not exists (select from public.audit_pending p where p.event = e.id)
order by e.id limit $1

-- name: lost
select p.event from public.audit_pending p where not exists (select from public.audit_event e where e.id = p.event)
order by p.event limit $1

-- name: interventions
select act, number, position, at, request, tenant, version, pack, digest, rule, stage, action, wanted
from public.intervention where act = any($1::bigint[]) order by act, request collate "C", number

-- name: uncovered
select distinct act from public.intervention
where not exists (select from public.audit_event e where e.id = act and e.what = 'safety.interventions')
order by act limit $1

-- name: waiting
-- A time that is null, no number or ahead of the clock is the longest wait.
select count(*)::bigint as events,
       coalesce(max(at - case when noted_at between 0 and at + 60 then noted_at else 0 end), 0)::double precision as seconds
from public.audit_pending, (select extract(epoch from clock_timestamp())::double precision as at) as clock

-- name: ends
select coalesce(min(number), 0)::bigint as "first", coalesce(max(number), 0)::bigint as "last",
       count(*) filter (where number is null or number < 1) as outside
from public.audit_link

-- name: is_moved
select moved_at > 0 as is_moved from public.audit_segment where "last" = $1
