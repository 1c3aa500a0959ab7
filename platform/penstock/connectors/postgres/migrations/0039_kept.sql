-- What a tenant keeps, in bytes: clear bytes of its sealed objects, and 1,024 for each row. It stands beside what
-- its open jobs reserve, by model; files and responses belong to none. Whatever statement changes a row changes the sum.
alter table job add column kept_bytes bigint not null generated always as (
    1022 + octet_length(metadata) + output_bytes + case batch when '' then input_bytes else 0 end) stored;
alter table file add column kept_bytes bigint not null generated always as (
    case deleted_at when 0 then 1024 + bytes else 0 end) stored;
-- The record of the answer under its idempotency key: a deletion takes it along.
alter table stored_response add column answer_key text not null default '' check (length(answer_key) <= 64);
alter table stored_response add column event_bytes bigint not null default 0;
-- A background response's input is its job's.
alter table stored_response add column kept_bytes bigint not null generated always as (
    1024 + begin_bytes + event_bytes + case when is_background then 0 else input_bytes + body_bytes end) stored;
alter table job_enqueued add column kept_bytes bigint not null default 0;

create function kept(whose text, at double precision) returns bigint language sql stable
    set search_path = public, pg_temp as $$
    select (coalesce((select sum(kept_bytes) from job_enqueued where tenant = whose), 0)
            - coalesce((select sum(kept_bytes) from file     -- expired, and not yet forgotten
                        where tenant = whose and deleted_at = 0 and expires_at > 0 and expires_at <= at), 0))::bigint
$$;

create function job_reserve(tenants text[], models text[], tokens bigint[], jobs bigint[], kept bigint[]) returns void
    language sql set search_path = public, pg_temp as $$
    insert into job_enqueued as known (tenant, model, tokens, jobs, kept_bytes)
    select tenant, model, sum(tokens), sum(jobs), sum(kept)
    from unnest(tenants, models, tokens, jobs, kept) as change (tenant, model, tokens, jobs, kept)
    group by tenant, model
    having sum(tokens) <> 0 or sum(jobs) <> 0 or sum(kept) <> 0
    order by tenant, model
    on conflict (tenant, model) do update
        set tokens = known.tokens + excluded.tokens, jobs = known.jobs + excluded.jobs,
            kept_bytes = known.kept_bytes + excluded.kept_bytes
$$;

create function note_kept() returns trigger language plpgsql
    security definer set search_path = public, pg_temp as $$
begin
    if tg_op = 'INSERT' then
        perform job_reserve(array_agg(tenant), array_agg(''::text), array_agg(0::bigint), array_agg(0::bigint),
                            array_agg(kept_bytes))
        from new_rows;
    elsif tg_op = 'DELETE' then
        perform job_reserve(array_agg(tenant), array_agg(''::text), array_agg(0::bigint), array_agg(0::bigint),
                            array_agg(-kept_bytes))
        from old_rows;
    else
        perform job_reserve(array_agg(tenant), array_agg(''::text), array_agg(0::bigint), array_agg(0::bigint),
                            array_agg(bytes))
        from (select tenant, -kept_bytes as bytes from old_rows
              union all select tenant, kept_bytes from new_rows) as changes;
    end if;
    return null;
end $$;

create trigger file_kept_new after insert on file referencing new table as new_rows
    for each statement execute function note_kept();
create trigger file_kept_changed after update on file referencing old table as old_rows new table as new_rows
    for each statement execute function note_kept();
create trigger file_kept_gone after delete on file referencing old table as old_rows
    for each statement execute function note_kept();
create trigger response_kept_new after insert on stored_response referencing new table as new_rows
    for each statement execute function note_kept();
create trigger response_kept_changed after update on stored_response
    referencing old table as old_rows new table as new_rows for each statement execute function note_kept();
create trigger response_kept_gone after delete on stored_response referencing old table as old_rows
    for each statement execute function note_kept();

-- Both are those of the first migration but for the bytes that are kept.
create or replace function job_deleted() returns trigger language plpgsql
    security definer set search_path = public, pg_temp as $$
begin
    perform job_reserve(array_agg(tenant), array_agg(model), array_agg(tokens), array_agg(jobs), array_agg(kept))
    from (select tenant, model,
                 -coalesce(sum(cost_tokens) filter (where state in ('queued', 'running')), 0)::bigint as tokens,
                 -count(*) filter (where state in ('queued', 'running')) as jobs, -sum(kept_bytes)::bigint as kept
          from old_rows group by tenant, model) as gone;
    return null;
end $$;

create or replace function job_changed() returns trigger language plpgsql
    security definer set search_path = public, pg_temp as $$
begin
    if tg_op = 'INSERT' then
        perform job_reserve(array_agg(tenant), array_agg(model), array_agg(tokens), array_agg(jobs), array_agg(kept))
        from (select tenant, model,
                     coalesce(sum(cost_tokens) filter (where state in ('queued', 'running')), 0)::bigint as tokens,
                     count(*) filter (where state in ('queued', 'running')) as jobs, sum(kept_bytes)::bigint as kept
              from new_rows group by tenant, model) as opened;
    elsif not exists (select from new_rows where state <> 'running') then
        return null;    -- a claim
    else
        perform job_reserve(array_agg(tenant), array_agg(model), array_agg(tokens), array_agg(jobs), array_agg(kept))
        from (select tenant, model, case when state in ('queued', 'running') then -cost_tokens else 0 end as tokens,
                     case when state in ('queued', 'running') then -1::bigint else 0 end as jobs, -kept_bytes as kept
              from old_rows
              union all
              select tenant, model, case when state in ('queued', 'running') then cost_tokens else 0 end,
                     case when state in ('queued', 'running') then 1 else 0 end, kept_bytes
              from new_rows) as changes;
        perform from job_flow
        where (version, tenant) in (select version, tenant from old_rows where state = 'running')
        order by version, tenant
        for update;
        -- A claim charges the most that a job can use; what it used replaces that, and what never ran is given back.
        update job_flow as flow
        set served = flow.served + used.tokens / job_weight(flow.tenant)
        from (select now.version, now.tenant, sum(case
                  when now.state = 'queued' and now.attempt < earlier.attempt then -earlier.cost_tokens
                  when now.state = 'succeeded' or now.reason = 'refused' or now.prompt_tokens + now.output_tokens > 0
                      then now.prompt_tokens + now.output_tokens - earlier.cost_tokens
                  else 0 end) as tokens
              from new_rows as now join old_rows as earlier using (id)
              where earlier.state = 'running' and now.state <> 'running'
              group by now.version, now.tenant) as used
        where flow.version = used.version and flow.tenant = used.tenant and used.tokens <> 0;
        -- A batch tells of itself, its lines tell nothing.
        perform tell(now.tenant, case
            when now.kind = 'job' then 'job.' || now.state
            when now.state <> 'succeeded' then 'response.' || now.state
            when now.error = '' then 'response.completed'
            else 'response.incomplete' end, now.name, now.webhook)
        from new_rows as now join old_rows as earlier using (id)
        where now.kind <> 'line' and earlier.state in ('queued', 'running') and now.state not in ('queued', 'running');
    end if;
    if not exists (select from new_rows where state = 'queued') then
        return null;
    end if;
    -- ``do update`` waits for a claim that is closing the lane; ``do nothing`` would lose the job.
    -- A flow that was idle begins at the virtual time: idling earns nothing, and forgets nothing.
    insert into job_flow as known (version, tenant, served, is_active)
    select version, tenant, coalesce(
        (select min(served) from job_flow as busy where busy.version = opened.version and is_active),
        (select max(served) from job_flow as busy where busy.version = opened.version), 0), true
    from (select distinct version, tenant from new_rows where state = 'queued') as opened
    order by version, tenant
    on conflict (version, tenant) do update
        set is_active = true, parked_until = 0,
            served = case when known.is_active then known.served else greatest(known.served, excluded.served) end;
    insert into job_lane as known (version, tenant, batch, key, deadline_at, since, is_ready, due_at)
    select version, tenant, batch, key, min(deadline_at), min(created_at), bool_or(not waits),
           min(case when waits then not_before else 'infinity' end)
    from new_rows
    where state = 'queued'
    group by version, tenant, batch, key
    order by version, tenant, batch, key
    on conflict (version, tenant, batch, key) do update
        set deadline_at = least(known.deadline_at, excluded.deadline_at), since = least(known.since, excluded.since),
            is_ready = known.is_ready or excluded.is_ready, due_at = least(known.due_at, excluded.due_at);
    perform pg_notify('penstock_jobs', '');
    return null;
end $$;

drop function job_reserve(text[], text[], bigint[], bigint[]);

insert into job_enqueued as known (tenant, model, tokens, jobs, kept_bytes)
select tenant, model, 0, 0, sum(kept_bytes)
from (select tenant, model, kept_bytes from job
      union all select tenant, '', kept_bytes from file
      union all select tenant, '', kept_bytes from stored_response) as one
group by tenant, model
on conflict (tenant, model) do update set kept_bytes = excluded.kept_bytes;
