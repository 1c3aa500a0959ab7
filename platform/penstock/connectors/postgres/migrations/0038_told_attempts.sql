-- Events of a background response are read while they come. What they are worth so far stands here, by their own
-- attempt, until it ends: an attempt that is lost, or ended by force, is billed for them.
create table job_told (
    job bigint primary key references job on delete cascade,
    epoch int not null,
    prompt_tokens bigint not null,
    output_tokens bigint not null,
    cost bigint not null,
    service_tier text not null,
    price_factor double precision not null
);

-- What the ledger has of a job's earlier attempts. A job costs no more than its dearest attempt: each later one begins
-- again, and replaces what the tenant read.
create function job_paid(whose text, held int) returns bigint language sql stable
    security definer set search_path = public, pg_temp as $$
    select coalesce(sum(cost), 0)::bigint from ledger
    where request = any(array(select whose || '-' || number from generate_series(1, held - 1) as number))
$$;
revoke execute on function job_paid(text, int) from public;

-- Both are those of the first migration but for the bill of what was told.
create or replace function job_take_over(dead bigint, at double precision)
    returns table (state text, jobs bigint) language plpgsql
    security definer set search_path = public, pg_temp set enable_seqscan = off set enable_bitmapscan = off
    set enable_sort = off set enable_hashjoin = off set enable_mergejoin = off as $$
begin
    delete from runner where id = dead;
    if not found then
        return;
    end if;
    return query
    with held as (
        select id from job where job.state = 'running' and job.runner = dead order by id for update
    ), lost as (
        update job
        set state = case when cancel_asked_at > 0 then 'cancelled' when attempt >= max_attempts then 'failed'
                         else 'queued' end,
            reason = case when cancel_asked_at > 0 then 'cancelled' when attempt >= max_attempts then 'dead_letter'
                          else 'runner_lost' end,
            error = 'runner_lost', runner = null,
            ended_at = case when cancel_asked_at > 0 or attempt >= max_attempts then at else 0 end,
            expires_at = case when batch = '' and (cancel_asked_at > 0 or attempt >= max_attempts) then at + keep_s
                              else 0 end
        from held
        where job.id = held.id
        returning job.*
    ), noted as (
        insert into job_attempt (job, attempt, runner, request, began_at, ended_at, error)
        select lost.id, lost.attempt, dead, lost.name || '-' || lost.epoch, lost.started_at, at, 'runner_lost' from lost
    ), billed as (  -- of its events, if it told any; the runner's own row may be there already
        insert into ledger (request, tenant, key, version, digest, api, priority, outcome, prompt_tokens, cached_tokens,
                            output_tokens, exact, gpu_s, cost, opened_at, closed_at, service_tier, price_factor)
        select lost.name || '-' || lost.epoch, lost.tenant, lost.key, lost.version, coalesce(model_version.digest, ''),
               lost.api, 'batch', 'internal', coalesce(told.prompt_tokens, 0), 0, coalesce(told.output_tokens, 0),
               false, case when told.output_tokens > 0 then 0.001 else 0 end,
               case when told.cost > 0 then greatest(told.cost - job_paid(lost.name, lost.epoch), 0) else 0 end,
               lost.started_at, at, coalesce(told.service_tier, 'default'), coalesce(told.price_factor, 1)
        from lost
            left join model_version on model_version.id = lost.version
            left join job_told as told on told.job = lost.id and told.epoch = lost.epoch
        on conflict (request) do nothing
    )
    select lost.state, count(*) from lost group by lost.state;
end $$;

create or replace function job_end_overdue(at double precision) returns bigint language plpgsql
    security definer set search_path = public, pg_temp set enable_seqscan = off set enable_bitmapscan = off
    set enable_sort = off set enable_hashjoin = off set enable_mergejoin = off as $$
declare
    number bigint;
begin
    with overdue as (
        select id from job
        where state = 'running' and runner > 0
          and ((cancel_asked_at > 0 and cancel_asked_at < at - 20) or deadline_at < at - 10)
        order by id
        for update skip locked
    ), ended as (
        update job
        set state = case when cancel_asked_at > 0 then 'cancelled' else 'failed' end,
            reason = case when cancel_asked_at > 0 then 'cancelled' else 'deadline' end,
            epoch = epoch + 1, ended_at = at, expires_at = case batch when '' then at + keep_s else 0 end
        from overdue
        where job.id = overdue.id
        returning job.*
    ), billed as (  -- what its runner tells later is fenced, and free
        insert into ledger (request, tenant, key, version, digest, api, priority, outcome, prompt_tokens, cached_tokens,
                            output_tokens, exact, gpu_s, cost, opened_at, closed_at, service_tier, price_factor)
        select ended.name || '-' || told.epoch, ended.tenant, ended.key, ended.version,
               coalesce(model_version.digest, ''), ended.api, 'batch',
               case ended.state when 'cancelled' then 'cancelled' else 'deadline' end, told.prompt_tokens, 0,
               told.output_tokens, false, 0.001, greatest(told.cost - job_paid(ended.name, told.epoch), 0),
               ended.started_at, at, told.service_tier, told.price_factor
        from ended
            join job_told as told on told.job = ended.id and told.epoch = ended.epoch - 1 and told.output_tokens > 0
            left join model_version on model_version.id = ended.version
        on conflict (request) do nothing
    )
    select count(*) into number from ended;
    return number;
end $$;
