-- How often another worker went on with a stream; an older program beside this one doesn't name it.
alter table ledger add column continued integer not null default 0;
