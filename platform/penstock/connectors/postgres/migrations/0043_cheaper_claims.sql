-- A claim picks from one tenant after another and changes all rows at once, an end looks at its rows once: what a
-- statement costs before its first row (constraints, indexes, triggers) was most of a claim of four jobs from each of
-- four tenants.
drop function job_claim_flow(bigint, job_flow, int, double precision);
drop function job_room(text, text, double precision);

-- What is left of the tightest budget over a job of this key: null for no budget, less than nothing while another claim
-- of the tenant or organisation is deciding. Spent is the ledger's, of all processes; held is what runs or is ``taken``.
create function job_room(whose text, by text, at double precision, taken bigint[]) returns bigint language plpgsql
    set search_path = public, pg_temp as $$
declare
    day constant text := to_char(to_timestamp(at) at time zone 'UTC', 'YYYY-MM-DD');
    cap record;
    members text[];
    rest bigint;
begin
    for cap in
        select plans.scope, plans.org, periods.period, periods.most
        from (select 'org' as scope, org.id as org, org.plan from tenant join org on org.id = tenant.org
              where tenant.id = whose
              union all select 'tenant', '', plan from tenant where id = whose
              union all select 'key', '', plan from api_key where id = by) as plans,
             lateral (values (day, (plan ->> 'spend_per_day')::bigint),
                             (left(day, 7), (plan ->> 'spend_per_month')::bigint)) as periods (period, most)
        where periods.most > 0
        order by plans.scope = 'org' desc
    loop
        if not pg_try_advisory_xact_lock(
            7305, hashtext(case cap.scope when 'org' then 'org:' || cap.org else whose end)) then
            return -1;
        end if;
        members := array(select whose union select id from tenant where cap.scope = 'org' and org = cap.org);
        rest := least(rest, cap.most
            - coalesce((select sum(cost) from ledger_sum
                        where period = cap.period and tenant = any(members) and (cap.scope <> 'key' or key = by)), 0)
            - coalesce((select sum(cost_micro_usd) from (
                            select tenant, key, cost_micro_usd from job where state = 'running' and cost_micro_usd > 0
                            union all select tenant, key, cost_micro_usd from job where id = any(taken)) as held
                        where tenant = any(members) and (cap.scope <> 'key' or key = by)), 0));
    end loop;
    return case when rest is not null then greatest(rest, 0) end;
end $$;

-- Add to ``taken`` up to ``most`` queued jobs of a tenant whose flow is locked, nearest deadline first over its lanes (the
-- eight nearest of them), and note lanes and flows that have nothing ready. A budget's room ends the picking, but for
-- one job if nothing of the tenant runs: the pipeline reserves less than the most that it can cost.
-- Flags are scalar subqueries: of an "exists" the planner may make a hash of the whole table.
create function job_pick(flow job_flow, most int, at double precision, taken bigint[]) returns bigint[]
    language plpgsql as $$
declare
    wanted int := most;
    one record;
    payer text;                 -- the lane that has the room
    room bigint;
    spent bigint;
    passed text[] := '{}';      -- lanes that give nothing more to this claim
    had int;
    has_moved boolean := false;
    rest record;
begin
    while wanted > 0 loop
        had := cardinality(passed);
        for one in
            select near.*, picked.*
            from (select batch || '/' || key as lane, batch, key, since, due_at, deadline_at as first_at,
                         coalesce((select job_is_capped(tenant.plan) or job_is_capped(org.plan)
                                   from tenant left join org on org.id = tenant.org where tenant.id = flow.tenant),
                                  false)
                             or coalesce((select job_is_capped(plan) from api_key where id = known.key), false)
                             as is_capped
                  from job_lane as known
                  where version = flow.version and tenant = flow.tenant and is_ready and parked_until <= at
                    and batch || '/' || key <> all(passed)
                    and coalesce((select revoked_at from api_key where id = known.key), 0) = 0
                    and (select scope from job_pause where known.batch <> '' and scope = 'batch:' || known.batch) is null
                  order by deadline_at
                  limit 8) as near,
                 lateral (select id, cost_micro_usd, created_at, deadline_at from job
                          where state = 'queued' and not waits and version = flow.version and tenant = flow.tenant
                            and batch = near.batch and key = near.key and deadline_at > at and id <> all(taken)
                          order by deadline_at, id
                          limit wanted
                          for update skip locked) as picked
            order by picked.deadline_at, picked.id
            limit wanted
        loop
            continue when one.lane = any(passed);
            if one.is_capped then
                if one.lane is distinct from payer then
                    payer := one.lane;
                    room := job_room(flow.tenant, one.key, at, taken);
                    spent := 0;
                end if;
                spent := spent + one.cost_micro_usd;
                if room <= 0 or (spent > room and (spent > one.cost_micro_usd or exists (
                    select from job where state = 'running' and cost_micro_usd > 0 and tenant = flow.tenant
                    union all
                    select from job where id = any(taken) and cost_micro_usd > 0 and tenant = flow.tenant)))
                then
                    passed := passed || one.lane;
                    if room >= 0 and spent = one.cost_micro_usd then
                        update job_lane set parked_until = at + case room when 0 then 10 else 1 end
                        where version = flow.version and tenant = flow.tenant and batch = one.batch and key = one.key;
                    end if;
                    continue;
                end if;
            end if;
            taken := taken || one.id;
            wanted := wanted - 1;
            has_moved := has_moved or one.since < one.created_at
                or (one.first_at > at and one.due_at = 'infinity' and one.first_at < one.deadline_at);
        end loop;
        exit when cardinality(passed) = had;
    end loop;
    if has_moved then
        update job_lane as known
        set since = greatest(known.since, seen.created_at),
            deadline_at = case when known.deadline_at > at and due_at = 'infinity'
                               then greatest(known.deadline_at, seen.deadline_at) else known.deadline_at end
        from (select batch, key, max(created_at) as created_at, max(deadline_at) as deadline_at
              from job
              where id = any(taken) and version = flow.version and tenant = flow.tenant
              group by batch, key) as seen
        where known.version = flow.version and known.tenant = flow.tenant and known.batch = seen.batch
          and known.key = seen.key;
    end if;
    if wanted > 0 then
        -- A limit keeps the planner from joining all of the tenant's jobs.
        update job_lane as known set is_ready = false
        where known.version = flow.version and known.tenant = flow.tenant and known.is_ready and (
            select true from job
            where state = 'queued' and not waits and version = known.version and tenant = known.tenant
              and batch = known.batch and key = known.key and id <> all(taken)
            limit 1) is null;
        delete from job_lane
        where version = flow.version and tenant = flow.tenant and not is_ready and due_at = 'infinity';
    end if;
    if wanted = most then
        select bool_and(is_parked or is_held) as are_parked,
               min(case when is_parked then parked_until else at + 2 end) as again
        into rest
        from (select parked_until, parked_until > at as is_parked,
                     coalesce((select revoked_at from api_key where id = known.key), 0) > 0
                         or (select scope from job_pause
                             where known.batch <> '' and scope = 'batch:' || known.batch) is not null as is_held
              from job_lane as known
              where version = flow.version and tenant = flow.tenant and is_ready) as ready;
        if rest.are_parked is null then
            update job_flow set is_active = false where version = flow.version and tenant = flow.tenant;
        elsif rest.are_parked then
            update job_flow set parked_until = rest.again where version = flow.version and tenant = flow.tenant;
        end if;
    end if;
    return taken;
end $$;

-- As before, but that each round changes and charges what it picked in one statement.
create or replace function job_claim(me bigint, versions text[], counts int[], closed jsonb, at double precision)
    returns setof job
    language plpgsql security definer set search_path = public, pg_temp
    set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off
    set enable_hashjoin = off set enable_mergejoin = off set jit = off as $$
declare
    flows refcursor;
    flow job_flow;
    wanted int;
    taken bigint[];
begin
    perform from runner where id = me for key share;
    if not found or exists (select from job_pause where scope = 'all') then
        return;
    end if;
    for i in 1 .. cardinality(versions) loop
        wanted := counts[i];
        for round in 1 .. 2 loop
            exit when wanted <= 0;
            taken := '{}';
            open flows for
                select known.* from job_flow as known
                where known.version = versions[i] and known.is_active and known.parked_until <= at
                  and not coalesce(closed -> (i - 1) ? known.tenant, false)
                order by known.served
                for update skip locked;
            loop
                exit when cardinality(taken) >= wanted;
                fetch flows into flow;
                exit when not found;
                taken := job_pick(flow, least(wanted - cardinality(taken),
                                              case round when 1 then (counts[i] + 3) / 4 else wanted end), at, taken);
            end loop;
            close flows;
            continue when taken = '{}';
            return query
            with claimed as (
                update job
                set state = 'running', reason = '', runner = me, epoch = epoch + 1, attempt = attempt + 1,
                    started_at = at
                from unnest(taken) as picked (id)
                where job.id = picked.id
                returning job.*
            ), charged as (
                update job_flow
                set served = served + used.tokens
                             / greatest(coalesce((select (plan ->> 'weight')::double precision from tenant
                                                  where tenant.id = used.tenant), 1), 1)
                from (select tenant, sum(cost_tokens) as tokens from claimed group by tenant) as used
                where job_flow.version = versions[i] and job_flow.tenant = used.tenant
            )
            select * from claimed;
            wanted := wanted - cardinality(taken);
        end loop;
    end loop;
end $$;

create or replace function job_changed() returns trigger language plpgsql
    security definer set search_path = public, pg_temp as $$
declare
    has_left boolean;
    has_queued boolean;
    has_single boolean;
begin
    select bool_or(state <> 'running'), bool_or(state = 'queued'), bool_or(kind <> 'line')
    into has_left, has_queued, has_single
    from new_rows;
    if has_left is not true then
        return null;    -- a claim
    end if;
    if tg_op = 'INSERT' then
        perform job_reserve(array_agg(tenant), array_agg(model), array_agg(tokens), array_agg(jobs), array_agg(kept))
        from (select tenant, model,
                     coalesce(sum(cost_tokens) filter (where state in ('queued', 'running')), 0)::bigint as tokens,
                     count(*) filter (where state in ('queued', 'running')) as jobs, sum(kept_bytes)::bigint as kept
              from new_rows group by tenant, model) as opened;
    else
        insert into job_enqueued as known (tenant, model, tokens, jobs, kept_bytes)
        select tenant, model, sum(case when is_open then sign * cost_tokens else 0 end),
               sum(case when is_open then sign else 0 end), sum(sign * kept_bytes)
        from (select -1::bigint as sign, state in ('queued', 'running') as is_open, tenant, model, cost_tokens, kept_bytes
              from old_rows
              union all
              select 1, state in ('queued', 'running'), tenant, model, cost_tokens, kept_bytes from new_rows) as one
        group by tenant, model
        having sum(case when is_open then sign * cost_tokens else 0 end) <> 0
            or sum(case when is_open then sign else 0 end) <> 0 or sum(sign * kept_bytes) <> 0
        order by tenant, model
        on conflict (tenant, model) do update
            set tokens = known.tokens + excluded.tokens, jobs = known.jobs + excluded.jobs,
                kept_bytes = known.kept_bytes + excluded.kept_bytes;
        -- A claim charges the most that a job can use; what it used replaces that, and what never ran is given back.
        with used as materialized (
            select now.version, now.tenant, sum(case
                when now.state = 'running' then 0
                when now.state = 'queued' and now.attempt < earlier.attempt then -earlier.cost_tokens
                when now.state = 'succeeded' or now.reason = 'refused' or now.prompt_tokens + now.output_tokens > 0
                    then now.prompt_tokens + now.output_tokens - earlier.cost_tokens
                else 0 end) as tokens
            from new_rows as now join old_rows as earlier using (id)
            where earlier.state = 'running'
            group by now.version, now.tenant
        ), held as materialized (
            select flow.version, flow.tenant, used.tokens from job_flow as flow join used using (version, tenant)
            order by flow.version, flow.tenant
            for update of flow
        )
        update job_flow as flow
        set served = served + held.tokens
                     / greatest(coalesce((select (plan ->> 'weight')::double precision from tenant
                                          where tenant.id = held.tenant), 1), 1)
        from held
        where flow.version = held.version and flow.tenant = held.tenant and held.tokens <> 0;
        if has_single then  -- a batch tells of itself, its lines tell nothing
            perform tell(now.tenant, case
                when now.kind = 'job' then 'job.' || now.state
                when now.state <> 'succeeded' then 'response.' || now.state
                when now.error = '' then 'response.completed'
                else 'response.incomplete' end, now.name, now.webhook)
            from new_rows as now join old_rows as earlier using (id)
            where now.kind <> 'line' and earlier.state in ('queued', 'running')
              and now.state not in ('queued', 'running');
        end if;
    end if;
    if not has_queued then
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
drop function job_weight(text);
