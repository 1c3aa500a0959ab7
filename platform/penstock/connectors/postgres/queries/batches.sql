-- name: input
select object from file
where id = $1 and tenant = $2 and purpose = 'batch' and state = 'ready' and deleted_at = 0
  and (expires_at = 0 or expires_at > $3)
for share

-- name: keyed
select * from batch where tenant = $1 and idempotency = $2

-- name: open
select count(*) as open from batch where tenant = $1 and ended_at = 0

-- name: create
insert into batch (id, tenant, key, endpoint, input_file, input_object, completion_window, state, created_at,
                   deadline_at, metadata, output_keep_s, idempotency, fingerprint)
values ($1, $2, $3, $4, $5, $6, $7, 'validating', $8, $9, $10::jsonb, $11, $12, $13)
on conflict do nothing
returning *

-- name: find
select * from batch where id = $1 and tenant = $2

-- name: newest
select * from batch
where tenant = $1 and ($2 = '' or (created_at, id) < (select created_at, id from batch where id = $2))
order by created_at desc, id desc
limit $3

-- name: oldest
select * from batch
where tenant = $1 and ($2 = '' or (created_at, id) > (select created_at, id from batch where id = $2))
order by created_at, id
limit $3

-- name: counts
select batch, count(*) filter (where state = 'succeeded') as completed,
       count(*) filter (where state = 'failed' and reason <> 'deadline') as failed,
       coalesce(sum(prompt_tokens) filter (where state = 'succeeded'), 0)::bigint as prompt_tokens,
       coalesce(sum(output_tokens) filter (where state = 'succeeded'), 0)::bigint as output_tokens
from job where batch = any($1::text[]) group by batch

-- name: waiting
select one.id, case
    when exists (select from job_pause where scope = 'all' or scope = 'batch:' || one.id) then 'paused'
    when exists (select from job_lane where batch = one.id and parked_until > $2) then 'budget'
    else '' end as reason
from unnest($1::text[]) as one (id)

-- name: lock
select * from batch where id = $1 and tenant = $2 for update

-- name: held
select * from batch where id = $1 and epoch = $2 and runner is not null for update

-- name: save
update batch
set state = $2, times = $3::jsonb, ended_at = $4, faults = $5::jsonb, versions = $6::jsonb, total = $7, completed = $8,
    failed = $9, prompt_tokens = $10, output_tokens = $11, output_file = $12, error_file = $13, paused_at = $14,
    is_late = $15
where id = $1

-- name: let_go
update batch set runner = null, tries = 0, next_at = 0 where id = $1

-- name: ended_lines
select b.*, exists (select from job where batch = b.id and reason = 'deadline') as has_late
from batch b
where ended_at = 0 and state = 'in_progress' and not batch_has_open_lines(b)
limit 100
for update skip locked

-- name: claim
-- Tenants take turns: the oldest batch of each comes before the second one of any.
update batch set runner = $1, epoch = epoch + 1, tries = tries + 1
where id in (
    select id from batch
    where id in (
        select id from (
            select id, created_at, row_number() over (partition by tenant order by created_at) as turn
            from batch b
            where ended_at = 0 and state = any($2::text[]) and next_at <= $4
              and (runner is null or runner = $1 and not id = any($3::text[])
                   or not exists (select from runner r where r.id = b.runner))
              and (state = 'validating' or not batch_has_open_lines(b))) as due
        order by turn, created_at
        limit $5)
    for update skip locked)
returning *

-- name: put_back
update batch set runner = null, next_at = $3, tries = tries - case when $4 then 0 else 1 end
where id = $1 and epoch = $2 and runner is not null

-- name: lines
select line, name, state, reason, error, status, request, output_object, output_at, output_bytes, prompt_tokens,
       output_tokens
from job
where batch = $1 and (output_object, output_at, line) > ($2, $3, $4)
order by output_object, output_at, line
limit $5

-- name: uncleared
select id from batch
where ended_at > 0 and ended_at <= $1 and not is_cleared
order by ended_at
limit $2

-- name: segments
select distinct output_object from job where batch = $1 and output_object <> ''

-- name: cleared
update batch set is_cleared = true where id = $1

-- name: forget
delete from batch where id in (
    select id from batch
    where ended_at > 0 and is_cleared and ended_at <= $1::double precision - greatest($2::double precision, output_keep_s)
    order by ended_at limit $3 for update skip locked)

-- name: add_file
insert into file (id, tenant, key, name, purpose, bytes, created_at, expires_at, object, state)
values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)

-- name: forget_lines
delete from job where id in (select id from job where batch = $1 limit 10000) returning 1

-- name: tell
select tell($1, $2, $3, '')
