-- The service tier that served, and what it multiplied the price by; an older program beside this one names neither.
alter table ledger add column service_tier text not null default 'default' check (length(service_tier) <= 32);
alter table ledger add column price_factor double precision not null default 1;
