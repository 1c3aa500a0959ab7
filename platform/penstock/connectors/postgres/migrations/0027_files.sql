-- Files of tenants. Their bytes are sealed objects outside of the database; an id sorts by its creation.
create table file (
    id text primary key,
    tenant text not null,
    key text not null,
    name text not null,
    purpose text not null,
    bytes bigint not null,
    created_at double precision not null,
    expires_at double precision not null,
    deleted_at double precision not null default 0,
    object text not null,
    state text not null,
    idempotency text not null default '',
    fingerprint text not null default ''
);
create index file_of_tenant on file (tenant, id) where deleted_at = 0;
create unique index file_once on file (tenant, idempotency) where idempotency <> '' and deleted_at = 0;
create index file_deleted on file (deleted_at) where deleted_at > 0;
create index file_expiring on file (expires_at) where expires_at > 0;
