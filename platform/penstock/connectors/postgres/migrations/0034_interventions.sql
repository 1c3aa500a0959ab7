-- What filters did to requests, without any of their text. Gateways add from their spools, perhaps twice.
create table intervention (
    request text not null,
    number int not null check (number >= 0),
    tenant text not null,
    version text not null,
    pack text not null,
    digest text not null,
    rule text not null,
    stage text not null,
    action text not null,
    wanted text not null,
    position bigint not null check (position >= 0),
    at double precision not null,
    primary key (request, number)
);
create index intervention_at on intervention (at);
create index intervention_tenant_at on intervention (tenant, at);

create trigger intervention_immutable before update on intervention
    for each row execute function refuse_change();
