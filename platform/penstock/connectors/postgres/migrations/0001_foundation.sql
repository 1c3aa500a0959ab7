-- Times are Unix seconds (double precision), as everywhere in the platform.

create table tenant (
    id text primary key,
    name text not null,
    plan jsonb not null,
    created_at double precision not null
);

create table api_key (
    id text primary key,
    tenant text not null references tenant,
    secret_hash text not null check (secret_hash ~ '^[0-9a-f]{64}$'),
    role text not null,
    models jsonb not null,
    created_at double precision not null,
    expires_at double precision not null,
    revoked_at double precision not null
);
create index api_key_tenant on api_key (tenant);

-- One row: how often keys or tenants have changed.
create table key_change (
    only_row boolean primary key default true check (only_row),
    number bigint not null
);
insert into key_change (number) values (0);

create function note_key_change() returns trigger language plpgsql as $$
begin
    update key_change set number = number + 1;
    perform pg_notify('penstock_keys', '');
    return null;
end $$;
create trigger key_changed after insert or update or delete on api_key
    for each statement execute function note_key_change();
create trigger tenant_changed after insert or update or delete on tenant
    for each statement execute function note_key_change();

-- The canonical text is what the digest covers; the jsonb beside it is for queries.
create table model_version (
    id text primary key,
    name text not null,
    digest text not null unique check (digest = encode(sha256(convert_to(canonical, 'UTF8')), 'hex')),
    canonical text not null,
    manifest jsonb generated always as (canonical::jsonb) stored,
    signature text not null check (signature <> ''),
    created_at double precision not null
);

create function refuse_change() returns trigger language plpgsql as $$
begin
    raise exception '% is written once and never changed', tg_table_name using errcode = 'integrity_constraint_violation';
end $$;
create trigger model_version_immutable before update or delete on model_version
    for each row execute function refuse_change();
create trigger model_version_kept before truncate on model_version
    for each statement execute function refuse_change();

-- Every route an alias ever had; the newest one counts, null takes the alias away.
create table alias_route (
    id bigint generated always as identity primary key,
    alias text not null,
    route jsonb,
    who text not null,
    put_at double precision not null
);
create index alias_route_newest on alias_route (alias, id desc);

create table deployment (
    version text primary key references model_version,
    body jsonb not null
);

-- Heartbeats come again by themselves, so they need no write-ahead log.
create unlogged table worker_lease (
    worker text primary key,
    report jsonb not null,
    seen_at double precision not null
);

create table routing_table (
    number bigint primary key check (number > 0),
    body jsonb not null,
    made_at double precision not null
);

create function tell_table() returns trigger language plpgsql as $$
begin
    perform pg_notify('penstock_table', new.number::text);
    return null;
end $$;
create trigger routing_table_published after insert on routing_table
    for each row execute function tell_table();

create table audit_event (
    id bigint generated always as identity primary key,
    at double precision not null,
    who text not null,
    what text not null,
    target text not null,
    detail text not null
);
create trigger audit_event_immutable before update or delete on audit_event
    for each row execute function refuse_change();
create trigger audit_event_kept before truncate on audit_event
    for each statement execute function refuse_change();
