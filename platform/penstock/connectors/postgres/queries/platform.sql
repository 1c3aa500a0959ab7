-- name: claim
insert into platform (fingerprint) values ($1) on conflict do nothing

-- name: renew
update platform set fingerprint = $1 where fingerprint = any($2::text[]) and fingerprint <> $1

-- name: fingerprint
select fingerprint as known from platform

-- name: claim_pepper
update platform set pepper = $1 where pepper = ''

-- name: renew_pepper
update platform set pepper = $1 where pepper = any($2::text[]) and pepper <> $1

-- name: pepper
select pepper as known from platform
