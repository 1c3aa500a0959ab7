-- name: tenants
select id, name, plan from tenant order by id

-- name: add_tenant
insert into tenant (id, name, plan, created_at) values ($1, $2, $3::jsonb, $4)

-- name: keys
select id, tenant, secret_hash, role, models, created_at, expires_at, revoked_at from api_key order by created_at, id

-- name: key
select id, tenant, secret_hash, role, models, created_at, expires_at, revoked_at from api_key where id = $1

-- name: add_key
insert into api_key (id, tenant, secret_hash, role, models, created_at, expires_at, revoked_at)
values ($1, $2, $3, $4, $5::jsonb, $6, $7, $8)

-- name: revoke_key
update api_key set revoked_at = $2 where id = $1 and revoked_at = 0 returning id

-- name: expire_key
update api_key set expires_at = case when expires_at = 0 then $2 else least(expires_at, $2) end
where id = $1 and revoked_at = 0
returning id
