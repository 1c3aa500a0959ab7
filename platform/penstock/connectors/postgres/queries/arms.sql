-- name: tell
insert into arm_second (told_at, body) values (extract(epoch from clock_timestamp()), $1)

-- name: since
-- The table is empty after a crash, and its numbers begin anew: who has read further than there is reads all.
select id, told_at, body from arm_second
where (id > $1 or $1 > (select max(id) from arm_second)) and told_at > extract(epoch from clock_timestamp()) - $2
order by id
limit $3

-- name: forget
delete from arm_second where told_at < extract(epoch from clock_timestamp()) - $1

-- name: ask
select add_alias_requests($1, $2)

-- name: asked
select coalesce(sum(requests) filter (where alias = $1 and minute >= $2), 0)::bigint as requests, min(minute) as first
from alias_minute

-- name: forget_asked
delete from alias_minute where minute < extract(epoch from clock_timestamp()) / 60 - $1

-- name: agree
select add_agreements($1::jsonb)

-- name: agreements
select alias, rule, version, other, other_version, tenant,
    sum(answered)::bigint as answered, sum(pairs)::bigint as pairs, sum(failed)::bigint as failed,
    sum(untold)::bigint as untold, sum(forms)::bigint as forms, sum(forms_agreed)::bigint as forms_agreed,
    sum(texts)::bigint as texts, sum(texts_agreed)::bigint as texts_agreed, sum(alike)::bigint as alike,
    least(sum(paid), 9e18)::bigint as paid, least(sum(other_paid), 9e18)::bigint as other_paid
from rule_agreement
where alias = $1 and minute >= $2
group by alias, rule, version, other, other_version, tenant
order by alias, rule, version, other, other_version, tenant

-- name: forget_agreements
delete from rule_agreement where minute < extract(epoch from clock_timestamp()) / 60 - $1
