-- Deferred requests. A row holds names, states, places of payloads and counts, never a prompt, an answer, or a caller's
-- text beside metadata. Times are Unix seconds of the processes' clocks; runner.seen_at is this server's.
create table runner (
    id bigint generated always as identity primary key,
    name text not null check (length(name) <= 128),
    started_at double precision not null,
    seen_at double precision not null
);

create table job (
    id bigint generated always as identity primary key,
    name text not null check (length(name) <= 64),
    tenant text not null,
    key text not null,
    batch text not null default '',             -- empty for a single job
    line int not null default 0,
    kind text not null check (kind in ('job', 'line', 'response')),
    api text not null check (length(api) <= 64),
    model text not null check (length(model) <= 128),
    version text not null,
    cost_tokens bigint not null check (cost_tokens >= 0),
    cost_micro_usd bigint not null default 0 check (cost_micro_usd >= 0),   -- held against budgets while it runs
    state text not null default 'queued' check (state in ('queued', 'running', 'succeeded', 'failed', 'cancelled')),
    reason text not null default '' check (length(reason) <= 32),
    waits boolean not null default false,       -- queued, and not_before has not come
    attempt int not null default 0,
    max_attempts int not null default 3 check (max_attempts > 0),
    epoch int not null default 0,
    runner bigint,
    not_before double precision not null default 0,
    deadline_at double precision not null,
    created_at double precision not null,
    started_at double precision not null default 0,
    ended_at double precision not null default 0,
    cancel_asked_at double precision not null default 0,
    expires_at double precision not null default 0,
    keep_s double precision not null,
    input_object text not null check (length(input_object) <= 256),
    input_at bigint not null default 0,
    input_bytes bigint not null default 0,
    output_object text not null default '' check (length(output_object) <= 256),
    output_at bigint not null default 0,
    output_bytes bigint not null default 0,
    status int not null default 0,
    error text not null default '' check (length(error) <= 64),
    request text not null default '' check (length(request) <= 128),
    prompt_tokens bigint not null default 0,
    output_tokens bigint not null default 0,
    webhook text not null default '',
    metadata text not null default '{}' check (length(metadata) <= 16384),  -- JSON, never searched
    idempotency text not null default '' check (length(idempotency) <= 128),
    fingerprint text not null default '' check (length(fingerprint) <= 128),
    check (waits is false or state = 'queued')
) with (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000,
        autovacuum_analyze_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 0);

create unique index job_name on job (name);
create unique index job_once on job (tenant, idempotency) where idempotency <> '';
create unique index job_line on job (batch, line) where batch <> '';
create index job_page on job (tenant, id) where batch = '';
create index job_expiry on job (expires_at) where expires_at > 0;
-- Claims read the front of one lane; what has ended or waits for its time is in none of their way.
create index job_next on job (version, tenant, batch, key, deadline_at, id) where state = 'queued' and not waits;
create index job_due on job (version, tenant, batch, key, not_before) where state = 'queued' and waits;
create index job_held on job (runner) where state = 'running';
create index job_spending on job (tenant) where state = 'running' and cost_micro_usd > 0;

-- Attempts that may have run and did not deliver; the last one is in the job's row.
create table job_attempt (
    job bigint not null references job on delete cascade,
    attempt int not null,
    runner bigint,
    request text not null,
    began_at double precision not null,
    ended_at double precision not null,
    error text not null
);
create index job_attempt_of on job_attempt (job);

-- Service of a tenant by a version, in tokens by weight: the least served one is next.
create table job_flow (
    version text not null,
    tenant text not null,
    served double precision not null default 0,
    is_active boolean not null default false,   -- it may have jobs that are ready
    parked_until double precision not null default 0,   -- all of its lanes are paused or without budget
    primary key (version, tenant)
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 200,
        autovacuum_vacuum_cost_delay = 0);

-- A tenant's queued jobs by batch and key, so that a pause, an empty budget or a revoked key passes over all of them at
-- once.
create table job_lane (
    version text not null,
    tenant text not null,
    batch text not null,
    key text not null,
    deadline_at double precision not null,      -- none of its jobs has an earlier one
    since double precision not null,            -- when the oldest of them was submitted, nearly
    is_ready boolean not null,                  -- it may have jobs whose time has come
    due_at double precision not null,           -- none of its waiting jobs is due earlier
    parked_until double precision not null default 0,   -- its budget is empty
    primary key (version, tenant, batch, key)
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 200,
        autovacuum_vacuum_cost_delay = 0);
create index job_lane_next on job_lane (version, tenant, deadline_at) where is_ready;
create index job_lane_due on job_lane (due_at);
create index job_lane_late on job_lane (deadline_at);
create index job_lane_key on job_lane (key);

create table job_pause (
    scope text primary key check (length(scope) <= 128),    -- 'all', or 'batch:<id>'
    at double precision not null
);

-- What open jobs reserve of their tenant's own limits.
create table job_enqueued (
    tenant text not null,
    model text not null,
    tokens bigint not null,
    jobs bigint not null,
    primary key (tenant, model)
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 200,
        autovacuum_vacuum_cost_delay = 0);

create function job_weight(whose text) returns double precision language sql stable
    set search_path = public, pg_temp as $$
    select greatest(1.0, coalesce((select (plan ->> 'weight')::double precision from tenant where id = whose), 1.0))
$$;

-- What a queued job waits for, as its tenant is told: pauses and empty budgets are of many jobs and stand in no row.
create function job_reason(one job, at double precision) returns text language sql stable
    set search_path = public, pg_temp as $$
    select case
        when one.state <> 'queued' then one.reason
        when exists (select from job_pause
                     where scope = 'all' or (one.batch <> '' and scope = 'batch:' || one.batch)) then 'paused'
        when exists (select from job_lane
                     where version = one.version and tenant = one.tenant and batch = one.batch and key = one.key
                       and parked_until > at) then 'budget'
        else one.reason end
$$;

-- Whatever statement opens or ends jobs, reservations, flows and lanes follow in its transaction: no end forgets to
-- release, and no queued job is in no lane. Everyone takes locks in one order: jobs, reservations, flows, lanes, each
-- kind sorted. Claims take only flows that nobody else holds, so they wait for none.
create function job_reserve(tenants text[], models text[], tokens bigint[], jobs bigint[]) returns void language sql
    set search_path = public, pg_temp as $$
    insert into job_enqueued as known (tenant, model, tokens, jobs)
    select tenant, model, sum(tokens), sum(jobs)
    from unnest(tenants, models, tokens, jobs) as change (tenant, model, tokens, jobs)
    group by tenant, model
    having sum(tokens) <> 0 or sum(jobs) <> 0
    order by tenant, model
    on conflict (tenant, model) do update
        set tokens = known.tokens + excluded.tokens, jobs = known.jobs + excluded.jobs
$$;

create function job_deleted() returns trigger language plpgsql
    security definer set search_path = public, pg_temp as $$
begin
    perform job_reserve(array_agg(tenant), array_agg(model), array_agg(tokens), array_agg(jobs))
    from (select tenant, model, -sum(cost_tokens)::bigint as tokens, -count(*) as jobs
          from old_rows where state in ('queued', 'running') group by tenant, model) as ended;
    return null;
end $$;

create function job_changed() returns trigger language plpgsql
    security definer set search_path = public, pg_temp as $$
begin
    if tg_op = 'INSERT' then
        perform job_reserve(array_agg(tenant), array_agg(model), array_agg(tokens), array_agg(jobs))
        from (select tenant, model, sum(cost_tokens)::bigint as tokens, count(*) as jobs
              from new_rows where state in ('queued', 'running') group by tenant, model) as opened;
    elsif not exists (select from new_rows where state <> 'running') then
        return null;    -- a claim
    else
        perform job_reserve(array_agg(tenant), array_agg(model), array_agg(tokens), array_agg(jobs))
        from (select tenant, model, -cost_tokens as tokens, -1::bigint as jobs
              from old_rows where state in ('queued', 'running')
              union all
              select tenant, model, cost_tokens, 1 from new_rows where state in ('queued', 'running')) as changes;
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

create trigger job_inserted after insert on job referencing new table as new_rows
    for each statement execute function job_changed();
create trigger job_updated after update on job referencing old table as old_rows new table as new_rows
    for each statement execute function job_changed();
create trigger job_deleted after delete on job referencing old table as old_rows
    for each statement execute function job_deleted();

create function job_is_capped(plan jsonb) returns boolean language sql immutable as $$
    select coalesce((plan ->> 'spend_per_day')::bigint, 0) > 0 or coalesce((plan ->> 'spend_per_month')::bigint, 0) > 0
$$;

-- What is left of the tightest budget over a job of this key: null for no budget, less than nothing while another claim
-- of the tenant or organisation is deciding. Spent is the ledger's, of all processes; held is what runs.
create function job_room(whose text, by text, at double precision) returns bigint language plpgsql
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
            - coalesce((select sum(cost_micro_usd) from job
                        where state = 'running' and cost_micro_usd > 0 and tenant = any(members)
                          and (cap.scope <> 'key' or key = by)), 0));
    end loop;
    return case when rest is not null then greatest(rest, 0) end;
end $$;

-- Hand out up to ``most`` jobs of a tenant whose flow is locked, nearest deadline first over its lanes (the eight nearest
-- of them); charge it, and note lanes and flows that have nothing ready. A budget's room ends the picking, but for one
-- job if nothing of the tenant runs: the pipeline reserves less than the most that it can cost.
create function job_claim_flow(me bigint, flow job_flow, most int, at double precision) returns setof job
    language plpgsql set search_path = public, pg_temp as $$
declare
    lane record;
    one job;
    room bigint;
    wanted int := most;
    had int;
    cost double precision := 0;
    oldest double precision;
    last_at double precision;
    passed text[] := '{}';      -- lanes that give nothing more to this claim
    again double precision := 'infinity';
    is_busy boolean := false;
    payer record;
    holder record;
begin
    select coalesce((tenant.plan ->> 'weight')::double precision, 1) as weight,
           job_is_capped(tenant.plan) or job_is_capped(org.plan) as is_capped
    into payer
    from tenant left join org on org.id = tenant.org
    where tenant.id = flow.tenant;
    while wanted > 0 loop
        select near.*, head.deadline_at as head_at, lead(head.deadline_at) over (order by head.deadline_at) as next_at
        into lane
        from (select * from job_lane as known
              where known.version = flow.version and known.tenant = flow.tenant and known.is_ready
                and known.parked_until <= at and known.batch || '/' || known.key <> all(passed)
              order by known.deadline_at
              limit 8) as near,
             lateral (select deadline_at from job
                      where state = 'queued' and not waits and version = near.version and tenant = near.tenant
                        and batch = near.batch and key = near.key and deadline_at > at
                      order by deadline_at, id
                      limit 1) as head
        order by head.deadline_at
        limit 1;
        exit when not found;
        had := wanted;
        room := null;
        select revoked_at > 0 as is_revoked, job_is_capped(plan) as is_capped into holder
        from api_key where id = lane.key;
        if holder.is_revoked
           or (lane.batch <> '' and exists (select from job_pause where scope = 'batch:' || lane.batch)) then
            again := least(again, at + 2);
        else
            if payer.is_capped or holder.is_capped then
                room := job_room(lane.tenant, lane.key, at);
            end if;
            for one in
                with picked as materialized (
                    select id, deadline_at, cost_micro_usd
                    from job
                    where state = 'queued' and not waits and version = lane.version and tenant = lane.tenant
                      and batch = lane.batch and key = lane.key and deadline_at > at
                      and deadline_at <= coalesce(lane.next_at, 'infinity')
                    order by deadline_at, id
                    limit case when room is null or room > 0 then wanted else 0 end
                    for update skip locked
                ), summed as (
                    select id, row_number() over nearest as place, sum(cost_micro_usd) over nearest as cost
                    from picked
                    window nearest as (order by deadline_at, id)
                )
                update job
                set state = 'running', reason = '', runner = me, epoch = job.epoch + 1, attempt = job.attempt + 1,
                    started_at = at
                from summed
                where job.id = summed.id
                  and (room is null or summed.cost <= room
                       or (summed.place = 1 and not exists (
                           select from job as other
                           where other.state = 'running' and other.cost_micro_usd > 0 and other.tenant = lane.tenant)))
                returning job.*
            loop
                return next one;
                wanted := wanted - 1;
                cost := cost + one.cost_tokens;
                oldest := greatest(oldest, one.created_at);
                last_at := greatest(last_at, one.deadline_at);
            end loop;
            if room >= 0 and had = wanted then
                update job_lane set parked_until = at + case room when 0 then 10 else 1 end
                where version = lane.version and tenant = lane.tenant and batch = lane.batch and key = lane.key;
                again := least(again, at + case room when 0 then 10 else 1 end);
            elsif had = wanted then
                is_busy := true;
            end if;
        end if;
        if had = wanted then
            passed := passed || (lane.batch || '/' || lane.key);
        elsif lane.since < oldest or (lane.deadline_at > at and lane.due_at = 'infinity' and lane.deadline_at < last_at)
        then
            update job_lane
            set since = greatest(since, oldest),
                deadline_at = case when deadline_at > at and due_at = 'infinity' then last_at else deadline_at end
            where version = lane.version and tenant = lane.tenant and batch = lane.batch and key = lane.key;
        end if;
        last_at := null;
        oldest := null;
    end loop;
    if wanted > 0 then
        -- A limit keeps the planner from joining all of the tenant's jobs.
        update job_lane as known set is_ready = false
        where known.version = flow.version and known.tenant = flow.tenant and known.is_ready and (
            select true from job
            where state = 'queued' and not waits and version = known.version and tenant = known.tenant
              and batch = known.batch and key = known.key
            limit 1) is null;
        delete from job_lane
        where version = flow.version and tenant = flow.tenant and not is_ready and due_at = 'infinity';
    end if;
    if wanted < most then
        update job_flow set served = served + cost / greatest(coalesce(payer.weight, 1), 1)
        where version = flow.version and tenant = flow.tenant;
    elsif not exists (select from job_lane where version = flow.version and tenant = flow.tenant and is_ready) then
        update job_flow set is_active = false where version = flow.version and tenant = flow.tenant;
    elsif not is_busy then
        again := least(again, (select min(parked_until) from job_lane
                               where version = flow.version and tenant = flow.tenant and is_ready
                                 and parked_until > at));
        update job_flow set parked_until = again
        where version = flow.version and tenant = flow.tenant and again < 'infinity';
    end if;
end $$;

-- For each version up to ``counts`` jobs, from the tenants that were served least. ``closed`` has, for each version, the
-- tenants that may not run there now. A first round takes at most a quarter from each tenant, so that no tenant fills a
-- runner's window; a second one takes the rest from whom there is.
-- Plans are kept from when tables were empty: only those that read an index in order stay right.
create function job_claim(me bigint, versions text[], counts int[], closed jsonb, at double precision) returns setof job
    language plpgsql security definer set search_path = public, pg_temp
    set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off
    set enable_hashjoin = off set enable_mergejoin = off as $$
declare
    flows refcursor;
    flow job_flow;
    one job;
    wanted int;
    is_alone boolean;
begin
    perform from runner where id = me for key share;
    if not found or exists (select from job_pause where scope = 'all') then
        return;
    end if;
    for i in 1 .. cardinality(versions) loop
        wanted := counts[i];
        for round in 1 .. 2 loop
            exit when wanted <= 0;
            is_alone := true;
            open flows for
                select known.* from job_flow as known
                where known.version = versions[i] and known.is_active and known.parked_until <= at
                  and not coalesce(closed -> (i - 1) ? known.tenant, false)
                order by known.served
                for update skip locked;
            loop
                exit when wanted <= 0;
                fetch flows into flow;
                exit when not found;
                is_alone := false;
                for one in
                    select * from job_claim_flow(
                        me, flow, case round when 1 then least(wanted, (counts[i] + 3) / 4) else wanted end, at)
                loop
                    return next one;
                    wanted := wanted - 1;
                end loop;
            end loop;
            close flows;
            -- Every flow is in somebody's hands, and none in ours: wait for one instead of going away without work.
            if is_alone and round = 1 and i = 1 then
                perform from job_flow as known
                where known.version = versions[i] and known.is_active and known.parked_until <= at
                  and not coalesce(closed -> (i - 1) ? known.tenant, false)
                order by known.served
                limit 1
                for update;
            end if;
        end loop;
    end loop;
end $$;
revoke execute on function job_claim(bigint, text[], int[], jsonb, double precision) from public;

-- After a pause, tenants are looked at again at once.
create function job_unpark(resumed text) returns void language sql
    security definer set search_path = public, pg_temp as $$
    with parked as (
        select version, tenant from job_flow
        where parked_until > 0 and (resumed = 'all' or exists (
            select from job_lane
            where version = job_flow.version and tenant = job_flow.tenant and resumed = 'batch:' || batch))
        order by version, tenant
        for update
    )
    update job_flow set parked_until = 0 from parked
    where job_flow.version = parked.version and job_flow.tenant = parked.tenant;
    select pg_notify('penstock_jobs', '')
$$;
-- Lanes with jobs that are due or late, or whose key was revoked, are brought up to what they hold; due jobs stop waiting.
create function job_mend(at double precision) returns bigint language plpgsql
    security definer set search_path = public, pg_temp set enable_seqscan = off set enable_bitmapscan = off
    set enable_sort = off set enable_hashjoin = off set enable_mergejoin = off as $$
declare
    lane job_lane;
    first_at double precision;
    moved bigint := 0;
    number bigint;
begin
    for lane in
        select * from (
            (select * from job_lane where due_at <= at order by due_at limit 32)
            union
            (select * from job_lane where deadline_at <= at order by deadline_at limit 32)
            union
            (select known.* from api_key join job_lane as known on known.key = api_key.id where revoked_at > 0 limit 32)
        ) as stale
        order by version, tenant, batch, key
    loop
        perform from job_flow where version = lane.version and tenant = lane.tenant for update;
        update job set waits = false, reason = ''
        where id in (
            select id from job
            where state = 'queued' and waits and version = lane.version and tenant = lane.tenant
              and batch = lane.batch and key = lane.key and not_before <= at
            order by not_before
            limit 256
            for update skip locked);
        get diagnostics number = row_count;
        moved := moved + number;
        first_at := (
            select deadline_at from job
            where state = 'queued' and not waits and version = lane.version and tenant = lane.tenant
              and batch = lane.batch and key = lane.key
            order by deadline_at, id
            limit 1);
        lane.due_at := coalesce((
            select not_before from job
            where state = 'queued' and waits and version = lane.version and tenant = lane.tenant
              and batch = lane.batch and key = lane.key
            order by not_before
            limit 1), 'infinity');
        -- No job waits beyond its deadline, so none has one before it is due.
        update job_lane as known
        set is_ready = first_at is not null, due_at = lane.due_at,
            deadline_at = least(coalesce(first_at, 'infinity'), lane.due_at)
        where known.version = lane.version and known.tenant = lane.tenant and known.batch = lane.batch
          and known.key = lane.key;
        delete from job_lane as known
        where known.version = lane.version and known.tenant = lane.tenant and known.batch = lane.batch
          and known.key = lane.key and not is_ready and due_at = 'infinity';
    end loop;
    return moved;
end $$;
revoke execute on function job_mend(double precision) from public;

-- Queued jobs end whose deadline has passed or whose key was revoked. No flow is locked meanwhile: reservations come
-- first.
create function job_end_queued(at double precision, most int) returns bigint language plpgsql
    security definer set search_path = public, pg_temp set enable_seqscan = off set enable_bitmapscan = off
    set enable_sort = off set enable_hashjoin = off set enable_mergejoin = off as $$
declare
    lane record;
    ended bigint := 0;
    number bigint;
begin
    for lane in
        select version, tenant, batch, key, deadline_at, false as is_revoked from job_lane where deadline_at <= at
        union all
        select known.version, known.tenant, known.batch, known.key, 0, true
        from api_key join job_lane as known on known.key = api_key.id
        where api_key.revoked_at > 0
        order by is_revoked, deadline_at
        limit 64
    loop
        exit when ended >= most;
        with waiting as (
            select id from job
            where state = 'queued' and waits and version = lane.version and tenant = lane.tenant
              and batch = lane.batch and key = lane.key and lane.is_revoked
            order by not_before
            limit most
            for update skip locked
        ), ready as (
            select id from job
            where state = 'queued' and not waits and version = lane.version and tenant = lane.tenant
              and batch = lane.batch and key = lane.key and (lane.is_revoked or deadline_at <= at)
            order by deadline_at, id
            limit most
            for update skip locked
        )
        update job
        set state = case when lane.is_revoked then 'cancelled' else 'failed' end,
            reason = case when lane.is_revoked then 'key_revoked' else 'deadline' end,
            waits = false, ended_at = at, expires_at = case batch when '' then at + keep_s else 0 end
        where id in (select id from waiting union all select id from ready);
        get diagnostics number = row_count;
        ended := ended + number;
    end loop;
    return ended;
end $$;
revoke execute on function job_end_queued(double precision, int) from public;

-- A job ends 20 s after the wish to cancel it, and 10 s after its deadline, whatever its runner does: its seat may be
-- taken a while longer, its answer changes nothing any more.
create function job_end_overdue(at double precision) returns bigint language plpgsql
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
    )
    update job
    set state = case when cancel_asked_at > 0 then 'cancelled' else 'failed' end,
        reason = case when cancel_asked_at > 0 then 'cancelled' else 'deadline' end,
        epoch = epoch + 1, ended_at = at, expires_at = case batch when '' then at + keep_s else 0 end
    from overdue
    where job.id = overdue.id;
    get diagnostics number = row_count;
    return number;
end $$;
revoke execute on function job_end_overdue(double precision) from public;

-- Flows and lanes of queued jobs that have none: there are none such, and if ever, they run a minute later. Each lane is
-- found by one probe of an index, however many jobs it has. Flows that remember nothing any more are dropped.
create function job_recover() returns bigint language plpgsql
    security definer set search_path = public, pg_temp set enable_seqscan = off set enable_bitmapscan = off
    set enable_sort = off set enable_hashjoin = off set enable_mergejoin = off as $$
declare
    number bigint;
begin
    with recursive ready as (
        (select version, tenant, batch, key, deadline_at, created_at from job where state = 'queued' and not waits
         order by version, tenant, batch, key limit 1)
        union all
        select following.* from ready, lateral (
            select version, tenant, batch, key, deadline_at, created_at from job
            where state = 'queued' and not waits
              and (version, tenant, batch, key) > (ready.version, ready.tenant, ready.batch, ready.key)
            order by version, tenant, batch, key limit 1) as following
    ), waiting as (
        (select version, tenant, batch, key, not_before, created_at from job where state = 'queued' and waits
         order by version, tenant, batch, key limit 1)
        union all
        select following.* from waiting, lateral (
            select version, tenant, batch, key, not_before, created_at from job
            where state = 'queued' and waits
              and (version, tenant, batch, key) > (waiting.version, waiting.tenant, waiting.batch, waiting.key)
            order by version, tenant, batch, key limit 1) as following
    ), lost as (
        select version, tenant, batch, key, created_at, true as is_ready from ready
        union all
        select version, tenant, batch, key, created_at, false from waiting
    ), flows as (
        insert into job_flow as known (version, tenant, is_active)
        select distinct version, tenant, true from lost
        where is_ready and not exists (
            select from job_flow where version = lost.version and tenant = lost.tenant and is_active)
        order by version, tenant
        on conflict (version, tenant) do update set is_active = true
    )
    insert into job_lane as known (version, tenant, batch, key, deadline_at, since, is_ready, due_at)
    select version, tenant, batch, key, 0, min(created_at), true, 0
    from lost
    where not exists (
        select from job_lane
        where version = lost.version and tenant = lost.tenant and batch = lost.batch and key = lost.key
          and (is_ready or not lost.is_ready))
    group by version, tenant, batch, key
    order by version, tenant, batch, key
    on conflict (version, tenant, batch, key) do update set is_ready = true, due_at = 0, deadline_at = 0;
    get diagnostics number = row_count;
    delete from job_flow as idle
    where not is_active and served <= (
        select min(served) from job_flow as busy where busy.version = idle.version and busy.is_active);
    return number;
end $$;
revoke execute on function job_recover() from public;

-- A lost runner's jobs are queued again, each with its attempt counted; after the last one it is a dead letter. Of several
-- that look, the one that removes the runner's row does it.
create function job_take_over(dead bigint, at double precision)
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
    ), billed as (  -- it delivered nothing, so it is free; the runner's own row may be there already
        insert into ledger (request, tenant, key, version, digest, api, priority, outcome, prompt_tokens, cached_tokens,
                            output_tokens, exact, gpu_s, cost, opened_at, closed_at)
        select lost.name || '-' || lost.epoch, lost.tenant, lost.key, lost.version, coalesce(model_version.digest, ''),
               lost.api, 'batch', 'internal', 0, 0, 0, false, 0, 0, lost.started_at, at
        from lost left join model_version on model_version.id = lost.version
        on conflict (request) do nothing
    )
    select lost.state, count(*) from lost group by lost.state;
end $$;
revoke execute on function job_take_over(bigint, double precision) from public;
