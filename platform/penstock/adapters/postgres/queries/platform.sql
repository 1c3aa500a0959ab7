-- name: claim
insert into platform (fingerprint) values ($1) on conflict do nothing

-- name: renew
update platform set fingerprint = $1 where fingerprint = any($2::text[]) and fingerprint <> $1

-- name: fingerprint
select fingerprint from platform
