-- name: newest
select * from tenant_key where tenant = $1 and purpose = $2 and region = $3 order by number desc limit 1

-- name: find
select * from tenant_key where tenant = $1 and id = $2

-- name: shredded
select from privacy_deletion where tenant = $1 and keys > 0 limit 1

-- name: alone
select pg_advisory_xact_lock(31, hashtext($1))

-- name: add
insert into tenant_key (id, tenant, purpose, region, wrapped_by, wrapped) values ($1, $2, $3, $4, $5, $6)

-- name: left
select id from tenant_key where id = any($1::bytea[])

-- name: counts
select wrapped_by, purpose, count(*) as keys, count(distinct tenant) as tenants
from tenant_key where region = $1
group by wrapped_by, purpose order by wrapped_by, purpose

-- name: wrapped_otherwise
select * from tenant_key where region = $1 and wrapped_by <> $2 order by number limit $3

-- name: rewrap
update tenant_key set wrapped_by = $2, wrapped = $3 where id = $1
