-- Batches count in what their tenants keep, and their rows go as those of jobs do.
alter table batch add column kept_bytes bigint not null generated always as (
    1024 + octet_length(metadata::text) + octet_length(faults::text)) stored;
create index batch_forgotten on batch (ended_at) where ended_at > 0 and is_cleared;

create trigger batch_kept_new after insert on batch referencing new table as new_rows
    for each statement execute function note_kept();
create trigger batch_kept_changed after update on batch referencing old table as old_rows new table as new_rows
    for each statement execute function note_kept();
create trigger batch_kept_gone after delete on batch referencing old table as old_rows
    for each statement execute function note_kept();

insert into job_enqueued as known (tenant, model, tokens, jobs, kept_bytes)
select tenant, '', 0, 0, sum(kept_bytes) from batch group by tenant order by tenant
on conflict (tenant, model) do update set kept_bytes = known.kept_bytes + excluded.kept_bytes;
