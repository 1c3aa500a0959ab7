-- name: live
select number, body from rollout where not is_over order by alias

-- name: newest
select number, body from rollout order by (body->>'began_at')::double precision desc, id limit $1

-- name: one
select number, body from rollout where id = $1

-- name: history
select body from rollout_change where rollout = $1 order by number

-- name: begin
insert into rollout (id, alias, number, is_over, body) values ($1, $2, $3, $4, $5::jsonb)

-- name: go_on
update rollout set number = $2, is_over = $3, body = $4::jsonb
where id = $1 and number = $2 - 1 and not is_over
returning id

-- name: change
insert into rollout_change (rollout, number, body) values ($1, $2, $3::jsonb)
