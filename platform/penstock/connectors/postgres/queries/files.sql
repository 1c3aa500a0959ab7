-- name: used
select count(*) as files from file
where tenant = $1 and deleted_at = 0 and (expires_at = 0 or expires_at > $2) and purpose = 'batch'

-- name: begin
insert into file (id, tenant, key, name, purpose, bytes, created_at, expires_at, object, state)
values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)

-- name: touch
update file set expires_at = $2 where id = $1 and state = 'uploading' and deleted_at = 0 returning id

-- name: free_key
update file set deleted_at = $3
where tenant = $1 and idempotency = $2 and deleted_at = 0 and expires_at > 0 and expires_at <= $3

-- name: finish
update file
set state = 'ready', name = $3, purpose = $4, bytes = $5, expires_at = $6, idempotency = $7, fingerprint = $8
where tenant = $1 and id = $2 and state = 'uploading' and deleted_at = 0
returning id

-- name: keyed
select id, tenant, key, name, purpose, bytes, created_at, expires_at, object, state, idempotency, fingerprint
from file
where tenant = $1 and idempotency = $2 and deleted_at = 0 and (expires_at = 0 or expires_at > $3)

-- name: find
select id, tenant, key, name, purpose, bytes, created_at, expires_at, object, state, idempotency, fingerprint
from file
where tenant = $1 and id = $2 and state = 'ready' and deleted_at = 0 and (expires_at = 0 or expires_at > $3)

-- name: newest
select id, tenant, key, name, purpose, bytes, created_at, expires_at, object, state, idempotency, fingerprint
from file
where tenant = $1 and ($2 = '' or purpose = $2) and ($3 = '' or id < $3)
    and state = 'ready' and deleted_at = 0 and (expires_at = 0 or expires_at > $5)
order by id desc
limit $4

-- name: oldest
select id, tenant, key, name, purpose, bytes, created_at, expires_at, object, state, idempotency, fingerprint
from file
where tenant = $1 and ($2 = '' or purpose = $2) and id > $3
    and state = 'ready' and deleted_at = 0 and (expires_at = 0 or expires_at > $5)
order by id
limit $4

-- name: delete
update file set deleted_at = $3
where tenant = $1 and id = $2 and state = 'ready' and deleted_at = 0 and (expires_at = 0 or expires_at > $3)
returning id

-- name: expire
update file set expires_at = $3 where tenant = $1 and id = $2 and deleted_at = 0 and (expires_at = 0 or expires_at > $3)

-- name: lock
-- A batch that is being made of the file holds its row, too: its user is seen by the next statement.
select id from file where tenant = $1 and id = $2 for update

-- name: user
select file_user($1) as id

-- name: abandon
update file set deleted_at = $2 where id = $1 and deleted_at = 0

-- name: expired
(select id, object from file where deleted_at > 0 order by deleted_at limit $2)
union
(select id, object from file
 where expires_at > 0 and expires_at <= $1 and file_user(id) is null order by expires_at limit $2)
limit $2

-- name: forget
delete from file
where id = any($1::text[]) and (deleted_at > 0 or (expires_at > 0 and expires_at <= $2 and file_user(id) is null))

-- name: known
select id from file where id = any($1::text[])
