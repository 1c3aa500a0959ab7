-- name: lock
select pg_advisory_xact_lock(7301)

-- name: alone
select pg_try_advisory_xact_lock(7303) as taken

-- name: prepare
create table if not exists schema_migration (
    number integer primary key,
    name text not null,
    digest text not null,
    applied_at timestamptz not null default now()
)

-- name: applied
select number, digest from schema_migration order by number

-- name: note
insert into schema_migration (number, name, digest) values ($1, $2, $3)

-- name: tell
insert into audit_event (at, who, what, target, detail)
values (extract(epoch from clock_timestamp()), 'platform', 'database.migrate', $1, $2)
