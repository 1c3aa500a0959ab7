-- name: note
insert into audit_event (at, who, what, target, detail, tenant) values ($1, $2, $3, $4, $5, $6)

-- name: newest
select at, who, what, target, detail, tenant from audit_event
where ($2::text is null or tenant = $2)
  and at >= $3 and ($4 = 0::double precision or at < $4)
  and ($5 = '' or who = $5)
  and ($6 = '' and what <> 'safety.interventions' or what = $6 or starts_with(what, $6 || '.'))
order by id desc limit $1

-- name: note_threshold
-- The tenant's webhook endpoints are told with the row: once, however many controllers notice it.
with noted as (
    insert into audit_event (at, who, what, target, detail, tenant)
    select $1, $2, $3, $4, $5, $6
    where $3 = 'budget.threshold'
    on conflict (target) where what = 'budget.threshold' do nothing
    returning id
)
select id, tell($6, 'budget.threshold', $4, '') from noted
