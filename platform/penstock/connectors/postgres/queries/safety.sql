-- name: lock
select pg_advisory_xact_lock(7305)

-- name: add_pack
insert into safety_pack (digest, id, version, pack, created_at) values ($1, $2, $3, $4, $5)
on conflict do nothing
returning digest

-- name: choose
insert into safety_choice (id, digest, who, put_at) values ($1, $2, $3, $4)

-- name: put_floor
insert into safety_floor (packs, who, put_at) values ($1::text[], $2, $3)

-- name: version
select digest from safety_pack where id = $1 and version = $2

-- name: before
select digest from safety_pack
where id = $1 and version < (
    select version from safety_pack
    where digest = (select digest from safety_choice where id = $1 order by number desc limit 1)
)
order by version desc
limit 1

-- name: newest
select max(version) as version from safety_pack where id = $1

-- name: packs
select pack.digest, pack.id, pack.version, pack.pack, pack.created_at, pack.digest = current.digest as is_current
from safety_pack as pack
left join lateral (
    select digest from safety_choice where id = pack.id order by number desc limit 1
) as current on true
order by pack.id, pack.version desc

-- name: floor
select packs from safety_floor order by number desc limit 1

-- name: append
-- One act of the audit log covers the rows of a call.
insert into intervention (request, number, tenant, version, pack, digest, rule, stage, action, wanted, position, at, act)
select *, (select next_act()) from unnest($1::text[], $2::int[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::text[],
                     $9::text[], $10::text[], $11::bigint[], $12::double precision[])
on conflict (request, number) do nothing

-- name: events
select request, number, tenant, version, pack, digest, rule, stage, action, wanted, position, at
from intervention
where at >= $1 and ($2::double precision = 0 or at < $2) and ($3 = '' or tenant = $3)
  and ($4 = '' or pack = $4 or split_part(pack, '@', 1) = $4) and ($5 = '' or rule = $5) and ($6 = '' or request = $6)
order by at desc, request, number
limit $7

-- name: counts
-- Also without the rule: a request in which several rules match is one.
select tenant, pack, coalesce(rule, '') as rule, stage, action, wanted,
       count(*) as interventions, count(distinct request) as requests
from intervention
where at >= $1 and ($2::double precision = 0 or at < $2) and ($3 = '' or tenant = $3)
  and ($4 = '' or pack = $4 or split_part(pack, '@', 1) = $4) and ($5 = '' or rule = $5) and ($6 = '' or request = $6)
group by grouping sets ((tenant, pack, rule, stage, action, wanted), (tenant, pack, stage, action, wanted))
order by tenant, pack, interventions desc, rule
limit 1000

-- name: served
select tenant, count(*) as requests from ledger
where closed_at >= $1 and ($2::double precision = 0 or closed_at < $2) and ($3 = '' or tenant = $3)
group by tenant

-- name: forget
select forget_interventions($1)

-- name: keep
-- A spool may come after a deletion of what is in it. What its tenant has no room for is dropped, and counted.
with new as (
    select *, row_number() over (partition by tenant order by at, request, number) as place
    from unnest($1::text[], $2::int[], $3::text[], $4::bytea[], $5::double precision[], $6::double precision[])
        as told (request, number, tenant, sealed, at, keep_until)
    where not exists (select from intervention_text as kept where (kept.request, kept.number) = (told.request, told.number))
      and not exists (
        select from privacy_deletion as asked
        where asked.tenant = told.tenant and told.at < asked.until
          and (asked.request = '' or told.request = any(asked.found)
               or regexp_replace(told.request, '-[0-9]+$', '') = any(asked.found)
               or told.request like 'batch\_req\_%'   -- of a line that may have gone with its batch
                  and not exists (select from job where name = regexp_replace(told.request, '-[0-9]+$', '')))
    )
), room as (
    select tenant, $7 - (select count(*) from (select from intervention_text as kept where kept.tenant = one.tenant
                                               limit $7) as held) as places
    from (select distinct tenant from new) as one
), added as (
    insert into intervention_text (request, number, tenant, sealed, at, keep_until)
    select request, number, tenant, sealed, at, keep_until from new join room using (tenant) where place <= places
    on conflict (request, number) do nothing
)
select count(*)::int as dropped from new join room using (tenant) where place > places

-- name: texts
select event.request, event.number, event.tenant, version, pack, digest, rule, stage, action, wanted, position, event.at,
       sealed, keep_until
from intervention as event join intervention_text as kept using (request, number)
where event.at >= $1 and ($2::double precision = 0 or event.at < $2) and ($3 = '' or kept.tenant = $3)
  and ($4 = '' or pack = $4 or split_part(pack, '@', 1) = $4) and ($5 = '' or rule = $5) and ($6 = '' or request = $6)
order by event.at desc, request, number
limit $7
