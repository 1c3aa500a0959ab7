-- name: versions
select id, digest, canonical, created_at from model_version order by created_at, id

-- name: version_by_digest
select id, digest, canonical, created_at from model_version where digest = $1

-- name: add_version
insert into model_version (id, name, digest, canonical, signature, created_at) values ($1, $2, $3, $4, $5, $6)
on conflict (digest) do nothing
returning id

-- name: routes
select route from (select distinct on (alias) alias, route from alias_route order by alias, id desc) newest
where route is not null
order by alias

-- name: put_route
insert into alias_route (alias, route, who, put_at) values ($1, $2::jsonb, $3, $4)

-- name: route_history
select route, who, put_at from alias_route where alias = $1 order by id desc limit $2

-- name: autos
select auto from (select distinct on (alias) alias, auto from auto_alias order by alias, id desc) newest
where auto is not null
order by alias

-- name: put_auto
insert into auto_alias (alias, auto, who, put_at) values ($1, $2::jsonb, $3, $4)

-- name: auto_history
select auto, who, put_at from auto_alias where alias = $1 order by id desc limit $2

-- name: owned
select version, tenants from (
    select distinct on (version) version, tenants from version_tenants order by version, id desc
) newest where tenants is not null
order by version

-- name: put_owned
insert into version_tenants (version, tenants, who, put_at) values ($1, $2::jsonb, $3, $4)

-- name: deployments
select body from deployment order by version

-- name: put_deployment
insert into deployment (version, body) values ($1, $2::jsonb)
on conflict (version) do update set body = excluded.body

-- name: curves
select curve from version_curve where version = $1 order by hardware

-- name: put_curve
insert into version_curve (version, hardware, curve) values ($1, $2, $3::jsonb)
on conflict (version, hardware) do update set curve = excluded.curve

-- name: catalogue
select
    (select coalesce(jsonb_agg(route order by alias), '[]') from (
        select distinct on (alias) alias, route from alias_route order by alias, id desc
    ) newest where route is not null) as routes,
    (select coalesce(jsonb_agg(auto order by alias), '[]') from (
        select distinct on (alias) alias, auto from auto_alias order by alias, id desc
    ) newest where auto is not null) as autos,
    (select coalesce(jsonb_agg(body order by version), '[]') from deployment) as deployments,
    (select coalesce(jsonb_agg(jsonb_build_object('version', version, 'tenants', tenants) order by version), '[]') from (
        select distinct on (version) version, tenants from version_tenants order by version, id desc
    ) newest where tenants is not null) as owned,
    (select count(*) from model_version) as version_count
