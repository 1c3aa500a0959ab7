-- Keys of what tenants have stored, wrapped by a key-encryption key; unwrapped they are in no row. The newest of a
-- tenant, purpose and region seals. Deleting a row shreds all that its key sealed.
create table tenant_key (
    number bigint generated always as identity primary key,
    id bytea not null unique check (length(id) = 16),
    tenant text not null,
    purpose text not null,
    region text not null,
    wrapped_by text not null check (length(wrapped_by) <= 2048),
    wrapped bytea not null check (length(wrapped) <= 6144),
    created_at double precision not null default extract(epoch from clock_timestamp())
);
create index tenant_key_newest on tenant_key (tenant, purpose, region, number desc);

-- Processes drop what they keep of a tenant whose keys are rotated or gone; a first key is news to nobody.
create function tenant_key_changed() returns trigger language plpgsql
    security definer set search_path = public, pg_temp as $$
begin
    perform pg_notify('penstock_tenant_keys', tenant) from (select distinct tenant from old_rows) as changed;
    return null;
end $$;
create trigger tenant_key_deleted after delete on tenant_key referencing old table as old_rows
    for each statement execute function tenant_key_changed();
