-- name: submit
insert into job (name, tenant, key, batch, line, kind, api, model, version, cost_tokens, cost_micro_usd, reason, waits,
                 max_attempts, not_before, deadline_at, created_at, keep_s, input_object, input_at, input_bytes,
                 webhook, metadata, idempotency, fingerprint)
values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22, $23, $24,
        $25)
on conflict (tenant, idempotency) where idempotency <> '' do nothing
returning *

-- name: submitted
select * from job where tenant = $1 and idempotency = $2

-- name: alone
select pg_advisory_xact_lock(7306, hashtext($1))

-- name: kept
select kept($1, $2) as kept

-- name: enqueued
select model, tokens, jobs from job_enqueued where tenant = $1 and jobs > 0

-- name: find
select *, job_reason(job, $3) as seen_reason from job
where tenant = $1 and name = $2 and (expires_at = 0 or expires_at > $3)

-- name: page_newest
select *, job_reason(job, $6) as seen_reason from job
where tenant = $1 and batch = '' and kind = $2 and ($3 = '' or state = $3) and ($4 = '' or reason = $4)
  and ($5 = '' or model = $5) and (expires_at = 0 or expires_at > $6)
  and ($7 = '' or id < (select id from job where tenant = $1 and name = $7)) and ($8 = '' or error = $8)
order by id desc
limit $9

-- name: page_oldest
select *, job_reason(job, $6) as seen_reason from job
where tenant = $1 and batch = '' and kind = $2 and ($3 = '' or state = $3) and ($4 = '' or reason = $4)
  and ($5 = '' or model = $5) and (expires_at = 0 or expires_at > $6)
  and ($7 = '' or id > (select id from job where tenant = $1 and name = $7)) and ($8 = '' or error = $8)
order by id
limit $9

-- name: page_of_all
select *, job_reason(job, $6) as seen_reason from job
where $1::text is null and batch = '' and kind = $2 and ($3 = '' or state = $3) and ($4 = '' or reason = $4)
  and ($5 = '' or model = $5) and (expires_at = 0 or expires_at > $6)
  and ($7 = '' or id < (select id from job where name = $7)) and ($8 = '' or error = $8)
order by id desc
limit $9

-- name: attempts
select attempt, runner, request, began_at, ended_at, error from job_attempt where job = $1 order by began_at, attempt

-- name: claim
select * from job_claim($1, $2, $3, $4::jsonb, $5)

-- name: finish
-- A constant would read all dead entries of the index of running jobs: 28,000 after as many ends without a vacuum.
-- The arrays are joined once: a plan made for ten rows compares each of five hundred with each at a second join.
with told as materialized (
    select *, 'running' as held_as from unnest($1::bigint[], $2::int[], $3::text[], $4::double precision[], $5::text[], $6::int[], $7::text[],
                         $8::text[], $9::text[], $10::bigint[], $11::bigint[], $12::bigint[], $13::bigint[])
        as told (id, epoch, state, at, reason, status, error, request, output_object, output_at, output_bytes,
                 prompt_tokens, output_tokens)
), held as materialized (
    select told.*, job.attempt, job.runner, job.started_at
    from job join told on job.id = told.id and job.state = told.held_as and job.epoch = told.epoch
    order by job.id
    for update of job
), ended as (
    update job
    set state = held.state, reason = held.reason, ended_at = held.at, status = held.status, error = held.error,
        request = held.request, output_object = held.output_object, output_at = held.output_at,
        output_bytes = held.output_bytes, prompt_tokens = held.prompt_tokens, output_tokens = held.output_tokens,
        expires_at = case job.batch when '' then held.at + job.keep_s else 0 end
    from held
    where job.id = held.id
    returning job.id
), noted as (
    insert into job_attempt (job, attempt, runner, request, began_at, ended_at, error)
    select id, attempt, runner, request, started_at, at, error from held where state = 'failed' and request <> ''
)
select id from ended

-- name: paid
select told.id, job_paid(job.name, told.epoch) as paid
from unnest($1::bigint[], $2::int[]) as told (id, epoch) join job on job.id = told.id

-- name: put_back
with told as materialized (
    select *, 'running' as held_as from unnest($1::bigint[], $2::int[], $3::double precision[], $4::double precision[], $5::text[],
                         $6::boolean[], $7::text[], $8::text[])
        as told (id, epoch, at, not_before, reason, may_have_run, error, request)
), held as materialized (
    select told.*, job.cancel_asked_at > 0 as is_cancelled,
           told.may_have_run and job.attempt >= job.max_attempts as is_dead, job.started_at, job.runner, job.attempt
    from job join told on job.id = told.id and job.state = told.held_as and job.epoch = told.epoch
    order by job.id
    for update of job
), back as (
    update job
    set state = case when held.is_cancelled then 'cancelled' when held.is_dead then 'failed' else 'queued' end,
        reason = case when held.is_cancelled then 'cancelled' when held.is_dead then 'dead_letter' else held.reason end,
        not_before = least(held.not_before, job.deadline_at),
        waits = not held.is_cancelled and not held.is_dead and least(held.not_before, job.deadline_at) > held.at,
        attempt = job.attempt - (not held.may_have_run)::int,
        runner = null, error = held.error, request = held.request,
        started_at = case when held.is_cancelled or held.is_dead then job.started_at else 0 end,
        ended_at = case when held.is_cancelled or held.is_dead then held.at else 0 end,
        expires_at = case when job.batch = '' and (held.is_cancelled or held.is_dead) then held.at + job.keep_s
                          else 0 end
    from held
    where job.id = held.id
    returning job.id, job.state
), noted as (
    insert into job_attempt (job, attempt, runner, request, began_at, ended_at, error)
    select id, attempt, runner, request, started_at, at, error from held where may_have_run
)
select id, state from back

-- name: asked_to_stop
select job.id, job.epoch,
       case when job.cancel_asked_at > 0 then 'cancelled' when job.deadline_at <= $2 then 'deadline' else 'paused' end
           as why
from job
where job.state = 'running' and job.runner = $1
  and (job.cancel_asked_at > 0 or job.deadline_at <= $2
       or exists (select from job_pause where scope = 'all' or (job.batch <> '' and scope = 'batch:' || job.batch)))

-- name: cancel
update job
set state = case state when 'queued' then 'cancelled' else state end,
    reason = case state when 'queued' then 'cancelled' else reason end,
    waits = false,
    ended_at = case state when 'queued' then $3 else ended_at end,
    expires_at = case when state = 'queued' and batch = '' then $3 + keep_s else expires_at end,
    cancel_asked_at = case cancel_asked_at when 0 then $3 else cancel_asked_at end
where tenant = $1 and name = $2 and state in ('queued', 'running')

-- name: cancel_batch
with open as (
    select id from job where batch = $1 and state in ('queued', 'running') order by id for update
)
update job
set state = case state when 'queued' then 'cancelled' else state end,
    reason = case state when 'queued' then 'cancelled' else reason end,
    waits = false,
    ended_at = case state when 'queued' then $2 else ended_at end,
    cancel_asked_at = case cancel_asked_at when 0 then $2 else cancel_asked_at end
from open
where job.id = open.id
returning job.id

-- name: replay
with again as (
update job
set state = 'queued', reason = case when not_before > $2 then 'not_before' else '' end, attempt = 0, epoch = epoch + 1,
    runner = null, waits = not_before > $2, not_before = case when not_before > $2 then not_before else 0 end,
    deadline_at = $2 + (deadline_at - created_at), created_at = $2, started_at = 0, ended_at = 0, cancel_asked_at = 0,
    expires_at = 0, status = 0, error = '', request = '', output_object = '', output_at = 0, output_bytes = 0,
    prompt_tokens = 0, output_tokens = 0, key = case $3 when '' then key else $3 end
where id = any($1::bigint[]) and kind = 'job' and state in ('failed', 'cancelled') and expires_at > $2
returning id
), forgotten as (
    delete from job_attempt where ctid = any (array(
        select beyond.place from again cross join lateral (
            select ctid as place from job_attempt where job = again.id order by began_at desc, attempt desc offset $4
        ) as beyond))
)
select id from again

-- name: to_replay
select * from job
where ($1::text is null or tenant = $1) and batch = '' and kind = $2 and state = $3 and ($4 = '' or reason = $4)
  and ($5 = '' or model = $5) and ($6 = '' or error = $6) and expires_at > $7
  and ($8::text[] = '{}' or model = any($8) or version = any($8))
order by id
limit $9
for update

-- name: delete
-- Its idempotency key is free with it: a repeated submit is a new job.
update job set expires_at = $3, idempotency = ''
where tenant = $1 and name = $2 and state not in ('queued', 'running') and batch = '' and expires_at > $3
returning *

-- name: pause
insert into job_pause (scope, at) values ($1, $2) on conflict (scope) do nothing

-- name: resume
with ended as (delete from job_pause where scope = $1)
select job_unpark($1)

-- name: paused
select scope from job_pause order by scope

-- name: acts
with clock as (select extract(epoch from clock_timestamp())::double precision as now),
     old as (delete from job_act using clock where tenant = $1 and at <= now - $2::double precision),
     lately as (
    select count(*) as acts, $2::double precision - (max(now) - min(at)) as wait_s
    from job_act, clock where tenant = $1 and at > now - $2::double precision
),
     noted as (insert into job_act (tenant, at) select $1, now from clock, lately where acts < $3::bigint)
select acts, wait_s from lately

-- name: mend
select job_mend($1)

-- name: end_queued
select job_end_queued($1, $2) as ended

-- name: end_overdue
select job_end_overdue($1) as ended

-- name: recover
select job_recover()

-- name: expired
select * from job where expires_at > 0 and expires_at <= $1 order by expires_at limit $2

-- name: forget
delete from job where id = any($1::bigint[]) and expires_at > 0

-- name: unended
select (select coalesce(sum(jobs), 0)::bigint from job_enqueued) as requests,
       (select count(*) from batch where ended_at = 0) as batches

-- name: shape
select (select coalesce(sum(jobs), 0)::bigint from job_enqueued) as jobs,
       (select coalesce(min(since), 0) from job_lane where is_ready) as oldest_at,
       (select coalesce(min(deadline_at), 0) from job_lane where is_ready) as due_at,
       oldest_transaction_s() as oldest_transaction_s
