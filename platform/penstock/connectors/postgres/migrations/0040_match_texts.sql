-- The text of what filters matched, sealed under the tenant's key, of tenants that keep it. No act covers it: it ends.
create table intervention_text (
    request text not null,
    number int not null check (number >= 0),
    tenant text not null,
    sealed bytea not null check (octet_length(sealed) <= 8192),
    at double precision not null,
    keep_until double precision not null,
    primary key (request, number)
);
create index intervention_text_until on intervention_text (keep_until);
create index intervention_text_tenant_at on intervention_text (tenant, at);
alter table privacy_deletion add column texts int not null default 0;
