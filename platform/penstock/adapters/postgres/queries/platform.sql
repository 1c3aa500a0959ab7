-- name: claim
insert into platform (fingerprint) values ($1) on conflict do nothing

-- name: fingerprint
select fingerprint from platform
