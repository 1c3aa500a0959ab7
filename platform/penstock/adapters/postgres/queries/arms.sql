-- name: tell
insert into arm_second (told_at, body) values (extract(epoch from clock_timestamp()), $1)

-- name: since
select id, told_at, body from arm_second
where id > $1 and told_at > extract(epoch from clock_timestamp()) - $2
order by id
limit $3

-- name: forget
delete from arm_second where told_at < extract(epoch from clock_timestamp()) - $1
