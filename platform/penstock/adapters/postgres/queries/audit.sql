-- name: note
insert into audit_event (at, who, what, target, detail) values ($1, $2, $3, $4, $5)

-- name: newest
select at, who, what, target, detail from audit_event order by id desc limit $1
