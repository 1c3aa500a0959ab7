-- name: tenants
select id, name, plan, org from tenant order by id

-- name: add_tenant
insert into tenant (id, name, plan, created_at, org) values ($1, $2, $3::jsonb, $4, $5)

-- name: move_tenant
update tenant set org = $2 where id = $1 returning id, name, plan, org

-- name: orgs
select id, name, plan from org order by id

-- name: add_org
insert into org (id, name, plan, created_at) values ($1, $2, $3::jsonb, $4)

-- name: keys
select id, tenant, secret_hash, role, models, created_at, expires_at, revoked_at, plan
from api_key
order by created_at, id

-- name: key
select id, tenant, secret_hash, role, models, created_at, expires_at, revoked_at, plan from api_key where id = $1

-- name: add_key
insert into api_key (id, tenant, secret_hash, role, models, created_at, expires_at, revoked_at, plan)
values ($1, $2, $3, $4, $5::jsonb, $6, $7, $8, $9::jsonb)

-- name: revoke_key
update api_key set revoked_at = $2 where id = $1 and revoked_at = 0 returning id

-- name: expire_key
update api_key set expires_at = case when expires_at = 0 then $2 else least(expires_at, $2) end, successor = $3
where id = $1 and revoked_at = 0 and successor is null
returning id

-- name: successor
select successor from api_key where id = $1

-- name: plan_of_key
select plan from api_key where id = $1 for update

-- name: plan_of_tenant
select plan from tenant where id = $1 for update

-- name: plan_of_org
select plan from org where id = $1 for update

-- name: put_plan_of_key
update api_key set plan = $2::jsonb where id = $1

-- name: put_plan_of_tenant
update tenant set plan = $2::jsonb where id = $1

-- name: put_plan_of_org
update org set plan = $2::jsonb where id = $1
