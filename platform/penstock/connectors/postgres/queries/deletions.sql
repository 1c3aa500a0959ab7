-- name: same
select * from privacy_deletion
where ended_at = 0 and swept_at = 0 and tenant = $1 and request = $2 and user_mark = $3 and before = $4

-- name: shred
with gone as (delete from tenant_key where tenant = $1 and purpose = 'content' returning 1)
select count(*)::int as keys from gone

-- name: add
insert into privacy_deletion (tenant, request, user_mark, before, until, asked_by, asked_at, keys, found, training_use)
values ($1, $2, $3, $4, $5, $6, $7, $8, $9::text[], $10)
returning *

-- name: find
select * from privacy_deletion where id = $1

-- name: newest
select * from privacy_deletion where $1 = '' or tenant = $1 order by id desc limit $2

-- name: open
select * from privacy_deletion where ended_at = 0 and swept_at = 0 and until <= $1 order by id limit $2

-- name: unsigned
select * from privacy_deletion where ended_at = 0 and swept_at > 0 and answers_at > 0 order by id limit $1

-- name: end
update privacy_deletion set receipt = $2, signature = $3, ended_at = $4 where id = $1 and ended_at = 0 returning id

-- name: unanswered
select id, tenant from privacy_deletion where id > $1 and (ended_at = 0 or asked_at > $2) order by id

-- name: answers
update privacy_deletion
set answers = answers + $2, answers_at = extract(epoch from clock_timestamp())
where id = $1 and ended_at = 0

-- name: inputs
-- Where users are named: requests of single jobs and background responses, the beginning of others' answers.
(select name as owner, input_object as object, input_at as at, input_bytes as size
 from job where tenant = $1 and batch = '' and created_at < $2 and name > $3 order by name limit $4)
union all
(select id, object, case when is_background then 0 else body_at end, case when is_background then begin_bytes
        else body_bytes end
 from stored_response where tenant = $1 and created_at < $2 and id > $3 order by id limit $4)
order by owner limit $4

-- name: batch_files
select id, object from file
where tenant = $1 and created_at < $2 and id > $3 and purpose = 'batch' and state = 'ready'
order by id limit $4

-- name: unattributed
select count(*)::int as files from batch
where tenant = $1 and created_at < $2 and (output_file <> '' or error_file <> '')
  and not exists (select from file where file.id = input_file and state = 'ready')
  and exists (select from file where file.id in (output_file, error_file))

-- name: found
update privacy_deletion set found = $2::text[], unattributed = $3 where id = $1 and found is null

-- name: stop_jobs
with open as (
    select id from job
    where tenant = $1 and batch = '' and state in ('queued', 'running') and cancel_asked_at = 0 and created_at < $3
      and ($2::text[] is null or name = any($2) or request = any($2))
    order by id limit $5 for update
)
update job
set state = case state when 'queued' then 'cancelled' else state end,
    reason = case state when 'queued' then 'cancelled' else reason end,
    waits = false,
    ended_at = case state when 'queued' then $4 else ended_at end,
    expires_at = case state when 'queued' then $4 + keep_s else expires_at end,
    cancel_asked_at = $4
from open where job.id = open.id
returning 1

-- name: stop_batches
update batch
set state = 'cancelled', times = times || jsonb_build_object('cancelled', $4::double precision), ended_at = $4,
    runner = null, epoch = epoch + 1
where id in (select id from erased_batches($1, $2, $3) where ended_at = 0)
returning id

-- name: stop_lines
with open as (
    select id from job
    where state in ('queued', 'running') and cancel_asked_at = 0 and batch <> ''
      and batch in (select id from erased_batches($1, $2, $3))
    order by id limit $5 for update
)
update job
set state = case state when 'queued' then 'cancelled' else state end,
    reason = case state when 'queued' then 'cancelled' else reason end,
    waits = false, ended_at = case state when 'queued' then $4 else ended_at end, cancel_asked_at = $4
from open where job.id = open.id
returning 1

-- name: forget_texts
-- Named by their requests, by a job with attempts, or by the batch of their line.
with gone as (
    delete from intervention_text
    where tenant = $1 and at < $3
      and ($2::text[] is null or request = any($2) or regexp_replace(request, '-[0-9]+$', '') = any($2)
           or regexp_replace(request, '-[0-9]+$', '') in
              (select name from job where batch in (select id from erased_batches($1, $2, $3))))
    returning 1
)
update privacy_deletion set texts = texts + (select count(*) from gone)
where id = $4 and (select count(*) from gone) > 0

-- name: texts
select distinct on (request) request, number, tenant, sealed, at, keep_until from intervention_text
where tenant = $1 and at < $2 and request > $3
order by request, number limit $4

-- name: forget_pauses
delete from job_pause where scope in (select 'batch:' || id from erased_batches($1, $2, $3))

-- name: files
select id as owner, array[object] as objects from erased_files($1, $2, $3) limit $4

-- name: forget_files
with gone as (delete from file where tenant = $2 and id = any($3::text[]) returning bytes, state)
update privacy_deletion
set files = files + (select count(*) from gone),
    bytes = bytes + (select coalesce(sum(bytes), 0) from gone where state = 'ready')
where id = $1

-- name: lines
select batch.id as owner, array(
    select distinct output_object from job where job.batch = batch.id and output_object <> '') as objects
from erased_batches($1, $2, $3) as batch limit $4

-- name: forget_lines
with gone as (
    delete from job where id in (
        select id from job
        where batch = any($2::text[]) and state not in ('queued', 'running')
          and (output_object = '' or output_object = any($3::text[]))
        limit $4)
    returning output_bytes
)
update privacy_deletion
set lines = lines + (select count(*) from gone), bytes = bytes + (select coalesce(sum(output_bytes), 0) from gone)
where id = $1
returning (select count(*)::int from gone) as gone

-- name: forget_batches
with gone as (
    delete from batch
    where id = any($2::text[]) and not exists (select from job where job.batch = batch.id)
    returning 1
)
update privacy_deletion set batches = batches + (select count(*) from gone)
where id = $1 and (select count(*) from gone) > 0
returning id

-- name: jobs
select name as owner, array[input_object, output_object] as objects from job
where tenant = $1 and batch = '' and state not in ('queued', 'running') and created_at < $3
  and ($2::text[] is null or name = any($2) or request = any($2))
limit $4

-- name: forget_jobs
with gone as (
    delete from job where tenant = $2 and batch = '' and name = any($3::text[]) and state not in ('queued', 'running')
    returning kind, input_bytes + output_bytes as bytes
)
update privacy_deletion
set jobs = jobs + (select count(*) from gone where kind = 'job'),
    bytes = bytes + (select coalesce(sum(bytes), 0) from gone where kind = 'job')
where id = $1

-- name: responses
select id as owner, object || array(select object from response_events where response = kept.id) as objects
from stored_response as kept
where tenant = $1 and created_at < $3 and ($2::text[] is null or id = any($2))
  and not exists (select from job where job.name = kept.id)
limit $4

-- name: forget_responses
with gone as (
    delete from stored_response where tenant = $2 and id = any($3::text[])
    returning begin_bytes + input_bytes + body_bytes as bytes
)
update privacy_deletion
set responses = responses + (select count(*) from gone),
    bytes = bytes + (select coalesce(sum(bytes), 0) from gone)
where id = $1

-- name: swept
update privacy_deletion set swept_at = $4
where id = $5 and swept_at = 0
  and not exists (select from erased_files($1, $2, $3))
  and not exists (select from erased_batches($1, $2, $3))
  and not exists (select from job where tenant = $1 and batch = '' and created_at < $3
                  and ($2::text[] is null or name = any($2) or request = any($2)))
  and not exists (select from stored_response where tenant = $1 and created_at < $3
                  and ($2::text[] is null or id = any($2)))
returning id
