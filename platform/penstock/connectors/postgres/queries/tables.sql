-- name: latest
select body from routing_table where number > $1 order by number desc limit 1

-- name: publish
insert into routing_table (number, body, made_at)
select $1::bigint, $2::jsonb, $3
where $1::bigint > coalesce((select max(number) from routing_table), 0)
returning number

-- name: numbered
select body from routing_table where number = $1

-- name: history
select body from routing_table order by number desc limit $1

-- name: prune
-- Older than the newest $1, a table stays only where the next one kept has other routes or rules.
delete from routing_table old using routing_table next
where old.number <= (select max(number) from routing_table) - $1::bigint
  and next.number = (select min(number) from routing_table where number > old.number)
  and next.body -> 'routes' = old.body -> 'routes'
  and coalesce(next.body -> 'autos', '[]') = coalesce(old.body -> 'autos', '[]')
