-- name: alone
select pg_advisory_xact_lock(7308)

-- name: tail
select number, hash from audit_link order by number desc limit 1

-- name: newest_head
select head, signature from audit_segment order by "last" desc limit 1

-- name: pending
select e.id, e.at, e.who, e.what, e.target, e.detail, e.tenant
from audit_pending p join audit_event e on e.id = p.event
order by p.event limit $1

-- name: link
insert into audit_link (number, event, hash) select * from unnest($1::bigint[], $2::bigint[], $3::bytea[])

-- name: linked
delete from audit_pending where event = any($1::bigint[])

-- name: lag
select coalesce(extract(epoch from clock_timestamp()) - min(coalesce(noted_at, 0)), 0)::double precision as seconds from audit_pending

-- name: hash
select hash from audit_link where number = $1

-- name: close
insert into audit_segment ("last", "first", head, signature) values ($1, $2, $3, $4) on conflict do nothing

-- name: unshipped
select head, signature from audit_segment where shipped_at = 0 order by "last" limit $1

-- name: count_unshipped
select count(*)::bigint as segments from audit_segment where shipped_at = 0

-- name: shipped
update audit_segment set shipped_at = extract(epoch from clock_timestamp()) where "last" = $1 and shipped_at = 0

-- name: old
select "last", shipped_at > 0 and shipped_at < extract(epoch from clock_timestamp()) - $1::double precision as is_old
from audit_segment where moved_at = 0 order by "last" limit 1

-- name: move
select audit_move($1)

-- name: links
select l.number, l.event, l.hash, e.id, e.at, e.who, e.what, e.target, e.detail, e.tenant
from audit_link l left join audit_event e on e.id = l.event
where l.number >= $1 and l.number <= $2 order by l.number limit $3

-- name: still
set transaction isolation level repeatable read, read only

-- name: segments
select head, signature, "first", "last", closed_at, shipped_at, moved_at from audit_segment order by "last"

-- name: strays
select e.id from audit_event e
where not exists (select from audit_link l where l.event = e.id)
  and not exists (select from audit_pending p where p.event = e.id)
order by e.id limit $1

-- name: lost
select p.event from audit_pending p where not exists (select from audit_event e where e.id = p.event)
order by p.event limit $1

-- name: interventions
select act, number, position, at, request, tenant, version, pack, digest, rule, stage, action, wanted
from intervention where act = any($1::bigint[]) order by act, request collate "C", number

-- name: uncovered
select distinct act from intervention
where not exists (select from audit_event e where e.id = act and e.what = 'safety.interventions')
order by act limit $1

-- name: waiting
select count(*)::bigint as events,
       coalesce(extract(epoch from clock_timestamp()) - min(coalesce(noted_at, 0)), 0)::double precision as seconds
from audit_pending

-- name: ends
select coalesce(min(number), 0)::bigint as "first", coalesce(max(number), 0)::bigint as "last",
       count(*) filter (where number is null or number < 1) as outside
from audit_link

-- name: late
select count(*)::bigint as segments,
       coalesce(extract(epoch from clock_timestamp()) - min(coalesce(closed_at, 0)), 0)::double precision as seconds
from audit_segment where shipped_at = 0

-- name: is_moved
select moved_at > 0 as is_moved from audit_segment where "last" = $1
