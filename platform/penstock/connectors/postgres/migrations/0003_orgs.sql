-- Organisations above tenants, bounds of single keys, alarms of budgets.

create table org (
    id text primary key,
    name text not null,
    plan jsonb not null,
    created_at double precision not null
);
insert into org (id, name, plan, created_at) values ('default', 'Default', '{}', extract(epoch from now()));
create trigger org_changed after insert or update or delete on org
    for each statement execute function note_key_change();

-- An older program that adds tenants and keys beside this one doesn't name these columns.
alter table tenant add column org text not null default 'default' references org;
alter table api_key add column plan jsonb not null default '{}';

-- Gateways read what the new columns add at once, not at the next change.
update key_change set number = number + 1;

-- An alarm of a budget is one row, whoever writes it and however often.
create unique index audit_event_threshold on audit_event (target) where what = 'budget.threshold';

-- Budgets count a request in the window in which it was opened.
create index ledger_opened on ledger (opened_at);
