-- Whose each version is, as it was ever set; the newest one counts, null makes it everybody's. A version without a row
-- is everybody's.
create table version_tenants (
    id bigint generated always as identity primary key,
    version text not null references model_version,
    tenants jsonb check (tenants is null or jsonb_typeof(tenants) = 'array'),
    who text not null,
    put_at double precision not null
);
create index version_tenants_newest on version_tenants (version, id desc);
create trigger version_tenants_kept before update or delete on version_tenants
    for each row execute function refuse_change();
create trigger version_tenants_not_emptied before truncate on version_tenants
    for each statement execute function refuse_change();
