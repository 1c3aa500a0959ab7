-- One row per finished, failed or cancelled request; never changed, never taken away. Money in micro-dollars.
create table ledger (
    request text primary key,
    tenant text not null,
    key text not null,
    version text not null,
    digest text not null,
    api text not null,
    priority text not null,
    outcome text not null,
    prompt_tokens bigint not null check (prompt_tokens >= 0),
    cached_tokens bigint not null check (cached_tokens between 0 and prompt_tokens),
    output_tokens bigint not null check (output_tokens >= 0),
    exact boolean not null,
    gpu_s double precision not null check (gpu_s >= 0),
    cost bigint not null check (cost >= 0),
    opened_at double precision not null,
    closed_at double precision not null
);
create index ledger_tenant_time on ledger (tenant, closed_at);
create index ledger_key_time on ledger (key, closed_at);

create trigger ledger_immutable before update or delete on ledger
    for each row execute function refuse_change();
create trigger ledger_kept before truncate on ledger
    for each statement execute function refuse_change();
