-- name: claim
with claimed as (insert into platform (fingerprint) values ($1) on conflict do nothing returning fingerprint)
insert into audit_event (at, who, what, target, detail)
select extract(epoch from clock_timestamp()), 'platform', 'platform.claim', left(fingerprint, 12), '' from claimed

-- name: renew
with renewed as (
    update platform set fingerprint = $1 where fingerprint = any($2::text[]) and fingerprint <> $1 returning fingerprint
)
insert into audit_event (at, who, what, target, detail)
select extract(epoch from clock_timestamp()), 'platform', 'platform.key.rotate', left(fingerprint, 12), '' from renewed

-- name: fingerprint
select fingerprint as known from platform

-- name: claim_pepper
with claimed as (update platform set pepper = $1 where pepper = '' returning pepper)
insert into audit_event (at, who, what, target, detail)
select extract(epoch from clock_timestamp()), 'platform', 'platform.pepper.set', left(pepper, 12), '' from claimed

-- name: renew_pepper
with renewed as (
    update platform set pepper = $1 where pepper = any($2::text[]) and pepper <> $1 returning pepper
)
insert into audit_event (at, who, what, target, detail)
select extract(epoch from clock_timestamp()), 'platform', 'platform.pepper.rotate', left(pepper, 12), '' from renewed

-- name: pepper
select pepper as known from platform
