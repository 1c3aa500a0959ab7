-- name: note
insert into audit_event (at, who, what, target, detail) values ($1, $2, $3, $4, $5)

-- name: newest
select at, who, what, target, detail from audit_event order by id desc limit $1

-- name: note_threshold
insert into audit_event (at, who, what, target, detail)
select $1, $2, $3, $4, $5
where $3 = 'budget.threshold'
on conflict (target) where what = 'budget.threshold' do nothing
returning id
