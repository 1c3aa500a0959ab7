-- Whom an act concerns, so that a tenant's own keys can read of it. Older acts are the operators' to read.
alter table audit_event add column tenant text not null default '';
create index audit_event_tenant on audit_event (tenant, id);
