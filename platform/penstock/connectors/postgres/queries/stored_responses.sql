-- name: add
insert into stored_response
    (id, tenant, object, created_at, expires_at, begin_bytes, input_at, input_bytes, body_at, body_bytes,
     is_background, keeps_events, answer_key)
values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)
returning kept_bytes

-- name: find
select id, tenant, object, created_at, expires_at, begin_bytes, input_at, input_bytes, body_at, body_bytes,
       is_background, keeps_events, answer_key
from stored_response where tenant = $1 and id = $2 and expires_at > $3

-- name: delete
-- Rows of one statement see the same moment: the pieces are named although they go with their response.
-- The job's row is locked first, as by a piece of events that is kept meanwhile.
with held as materialized (select id from job where name = $2 for update),
    gone as (delete from stored_response
             where tenant = $1 and id = $2 and (select count(*) from held) >= 0 returning id, object),
    freed as (update job set idempotency = '' from gone where job.name = gone.id and idempotency <> '')
select object from gone
union all
select piece.object from response_events piece join gone on piece.response = gone.id

-- name: expire
update stored_response set expires_at = $3 where tenant = $1 and id = $2 and expires_at > $3

-- name: expired
-- Of a response that was deleted its job may be left.
with due as (select id, object from stored_response where expires_at <= $1 order by expires_at limit $2)
select object as owned, object from due
union all
select due.object, piece.object from response_events piece join due on piece.response = due.id
union all
select due.object, job.output_object from job join due on job.name = due.id where job.output_object <> ''
union all
(select 'response/' || right(name, 16), output_object
 from job
 where kind = 'response' and expires_at > 0 and expires_at <= $1
     and not exists (select from stored_response where id = job.name)
 order by expires_at limit $2)
order by owned

-- name: forget
with gone as (delete from stored_response where object = any($1::text[]) returning id),
    of_them as (delete from job using gone where job.name = gone.id returning job.name)
delete from job
where kind = 'response' and expires_at > 0 and expires_at <= $2 and 'response/' || right(name, 16) = any($1::text[])

-- name: known
select object from stored_response where object = any($1::text[])

-- name: events
select * from response_events
where response = $1 and "last" > $2
    and (not $3 or epoch = (select max(epoch) from response_events where response = $1))
order by "first"
limit $4

-- name: newest
select "last", items, open from response_events where response = $1 order by "first" desc limit 1

-- name: append
-- The share lock makes a runner that lost its job wait for the row of the one that has it, and then find no such row.
with held as (
    select id from job where name = $1 and epoch = $2 and state = 'running' for share
), told as (
    insert into job_told (job, epoch, prompt_tokens, output_tokens, cost, service_tier, price_factor)
    select id, $2, $8, $9, $10, $11, $12 from held
    on conflict (job) do update
        set epoch = excluded.epoch, prompt_tokens = excluded.prompt_tokens, output_tokens = excluded.output_tokens,
            cost = excluded.cost, service_tier = excluded.service_tier, price_factor = excluded.price_factor
), counted as (
    update stored_response set event_bytes = event_bytes + 1024 + $13 from held where stored_response.id = $1
)
insert into response_events (response, epoch, "first", "last", object, items, open)
select $1, $2, $3, $4, $5, $6, $7::jsonb from held
returning "first"
