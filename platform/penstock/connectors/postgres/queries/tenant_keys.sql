-- name: newest
select * from tenant_key where tenant = $1 and purpose = $2 and region = $3 order by number desc limit 1

-- name: find
select * from tenant_key where tenant = $1 and id = $2

-- name: alone
select pg_advisory_xact_lock(31, hashtext($1))

-- name: add
insert into tenant_key (id, tenant, purpose, region, wrapped_by, wrapped) values ($1, $2, $3, $4, $5, $6)

-- name: left
select id from tenant_key where id = any($1::bytea[])
