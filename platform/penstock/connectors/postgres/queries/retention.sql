-- name: expired
select name, array[input_object, output_object] as objects
from job
where expires_at > 0 and expires_at <= $1 and kind = 'job'
order by expires_at
limit $2

-- name: forget
delete from job where name = any($1::text[]) and expires_at > 0 and expires_at <= $2

-- name: known
select name from job where name = any($1::text[])

-- name: known_batches
select id from batch where id = any($1::text[]) and not is_cleared

-- name: expired_texts
select distinct request from intervention_text where keep_until <= $1 limit $2

-- name: forget_texts
delete from intervention_text where request = any($1::text[]) and keep_until <= $2
