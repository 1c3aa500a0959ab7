-- name: lives
select 1
