-- name: alone
select pg_advisory_xact_lock(29, hashtext($1))

-- name: create
with made as (
    insert into webhook_endpoint (id, tenant, url, events, secret, created_at)
    select $1, $2, $3, $4::text[], $5, extract(epoch from clock_timestamp())
    where (select count(*) from webhook_endpoint where tenant = $2) < $6
    returning *
), noted as (
    insert into audit_event (at, who, what, target, detail, tenant)
    select extract(epoch from clock_timestamp()), $7, 'webhook.create', id, array_to_string(events, ', '), tenant from made
)
select * from made

-- name: of_tenant
select * from webhook_endpoint where tenant = $1 order by created_at desc, id

-- name: one
select * from webhook_endpoint where tenant = $1 and (id = $2 or url = $2)

-- name: change
with changed as (
update webhook_endpoint set
    url = coalesce($3, url), events = coalesce($4::text[], events), is_on = coalesce($5, is_on),
    off_reason = case when coalesce($5, is_on) then '' when $5 is null then off_reason else 'owner' end,
    failing_since = case when $5 or $3 <> url then 0 else failing_since end,
    not_before = case when $5 or $3 <> url then 0 else not_before end
where tenant = $1 and id = $2
returning *
), noted as (
    insert into audit_event (at, who, what, target, detail, tenant)
    select extract(epoch from clock_timestamp()), $6, 'webhook.change', id, concat_ws(', ', case when $3 is not null then 'url' end,
        'events=' || array_to_string($4::text[], ' '), 'enabled=' || $5::text), tenant from changed
)
select * from changed

-- name: rotate
with changed as (
update webhook_endpoint set
    previous_secret = case when $4 > 0 then secret else '' end,
    previous_until = case when $4 > 0 then extract(epoch from clock_timestamp()) + $4 else 0 end,
    secret = $3
where tenant = $1 and id = $2
returning *
), noted as (
    insert into audit_event (at, who, what, target, detail, tenant)
    select extract(epoch from clock_timestamp()), $5, 'webhook.rotate', id, '', tenant from changed
)
select * from changed

-- name: delete
with gone as (delete from webhook_endpoint where tenant = $1 and id = $2 returning id, tenant),
     deliveries as (delete from webhook_delivery where endpoint in (select id from gone) returning event),
     events as (
    -- Tests of the last minute still count.
    delete from webhook_event e where id in (select event from deliveries) and not exists (
        select from webhook_delivery d where d.event = e.id and d.endpoint <> $2)
      and (type <> 'webhook.test' or created_at <= extract(epoch from clock_timestamp()) - $4)
     ),
     noted as (
    insert into audit_event (at, who, what, target, detail, tenant)
    select extract(epoch from clock_timestamp()), $3, 'webhook.delete', id, '', tenant from gone
)
select id from gone

-- name: test
select tell(tenant, 'webhook.test', id, id) from webhook_endpoint where tenant = $1 and id = $2 and is_on

-- name: tests
select count(*) as tests, $2 - (extract(epoch from clock_timestamp())::double precision - min(created_at)) as wait_s
from webhook_event
where created_at > extract(epoch from clock_timestamp()) - $2 and tenant = $1 and type = 'webhook.test'

-- name: delivery
select id from webhook_delivery where endpoint = $1 and event = $2

-- name: deliveries
select d.*, e.type, e.object, e.created_at as told_at
from webhook_delivery d join webhook_event e on e.id = d.event
where d.endpoint = $1 and ($2 = '' or d.state = $2)
  and ($3 = 0::bigint or case when $4 then d.id < $3 else d.id > $3 end)
order by case when $4 then -d.id else d.id end limit $5

-- name: replay
update webhook_delivery set state = 'due', attempt = 0, ended_at = 0,
    next_at = extract(epoch from clock_timestamp()), created_at = extract(epoch from clock_timestamp())
where endpoint = $1 and ($2 = 0::bigint or id = $2)
  and (state = 'failed' or state = 'delivered' and $2 <> 0) and created_at >= $3
returning id

-- name: end_due
update webhook_delivery set state = 'failed', last_error = 'endpoint_off', ended_at = extract(epoch from clock_timestamp())
where endpoint = any($1::text[]) and state = 'due'

-- name: take_over
-- A runner is alive while it has its row. What a dead one was sending is due at once; its attempt counts.
update webhook_delivery d set state = 'due', runner = null, next_at = extract(epoch from clock_timestamp())
where state = 'sending' and not exists (select from runner where id = d.runner)
returning id

-- name: waiting
-- One probe of the index for each endpoint with a due row, however long its queue is.
with recursive flow as (
    (select endpoint from webhook_delivery where state = 'due' order by endpoint limit 1)
    union all
    select (select d.endpoint from webhook_delivery d
            where d.state = 'due' and d.endpoint > flow.endpoint order by d.endpoint limit 1)
    from flow where flow.endpoint is not null
), clock as (select extract(epoch from clock_timestamp()) as at)
select e.id, e.tenant, e.failing_since > 0 as is_failing, clock.at - greatest(head.next_at, e.not_before) as late_s
from clock, flow join webhook_endpoint e on e.id = flow.endpoint
    cross join lateral (select next_at from webhook_delivery d
                        where d.endpoint = e.id and d.state = 'due' order by next_at limit 1) head
where e.is_on and greatest(head.next_at, e.not_before) <= clock.at

-- name: claim
with wanted as (
    select * from unnest($2::text[], $3::int[]) as one (endpoint, most)
), picked as (
    select due.id from wanted cross join lateral (
        select id from webhook_delivery
        where endpoint = wanted.endpoint and state = 'due' and next_at <= extract(epoch from clock_timestamp())
        order by next_at, id limit wanted.most for update skip locked
    ) due
), taken as (
    update webhook_delivery d set state = 'sending', runner = $1, epoch = d.epoch + 1, attempt = d.attempt + 1
    from picked where d.id = picked.id
    returning d.id, d.epoch, d.attempt, d.event, d.endpoint
)
select taken.*, v.type, v.object, v.created_at as told_at, e.tenant, e.url, e.secret,
       case when e.previous_until > extract(epoch from clock_timestamp()) then e.previous_secret else '' end as previous
from taken join webhook_event v on v.id = taken.event join webhook_endpoint e on e.id = taken.endpoint

-- name: reseal
update webhook_endpoint set secret = $3 where id = $1 and secret = $2

-- name: hold
-- In one order for all senders, so that two never wait for one another.
select id from webhook_endpoint where id in (select endpoint from webhook_delivery where id = any($1::bigint[]))
order by id for update

-- name: end
update webhook_delivery d set
    state = case when told.verdict = 'delivered' then 'delivered'
                 when told.verdict = 'retried' and e.is_on then 'due' else 'failed' end,
    runner = null, last_status = told.status,
    last_error = case when told.verdict = 'retried' and not e.is_on then 'endpoint_off' else told.error end,
    next_at = clock.at + told.delay_s,
    ended_at = case when told.verdict = 'retried' and e.is_on then 0 else clock.at end
from (select extract(epoch from clock_timestamp()) as at) clock, webhook_endpoint e,
     unnest($1::bigint[], $2::int[], $3::text[], $4::int[], $5::text[], $6::double precision[])
         as told (id, epoch, verdict, status, error, delay_s)
where d.id = told.id and d.epoch = told.epoch and d.state = 'sending' and e.id = d.endpoint
returning d.id, d.endpoint, d.created_at

-- name: learn
with said as (
    select endpoint, bool_or(verdict = 'delivered') as is_answered, bool_or(verdict = 'gone') as is_gone,
           min(told_at) filter (where verdict = 'failed') as given_up, max(hold_s) as hold_s
    from unnest($1::text[], $2::text[], $3::double precision[], $4::double precision[])
        as told (endpoint, verdict, told_at, hold_s)
    group by endpoint
), clock as (select extract(epoch from clock_timestamp()) as at), learned as (
    select e.id, e.is_on as was_on, s.*, clock.at,
           coalesce(e.is_on and not s.is_answered and s.given_up >= e.answered_at, false) as is_failed
    from said s join webhook_endpoint e on e.id = s.endpoint, clock
)
update webhook_endpoint e set
    failing_since = case when l.is_answered then 0 when e.failing_since = 0 then l.at else e.failing_since end,
    answered_at = case when l.is_answered then l.at else e.answered_at end,
    not_before = case when l.hold_s > 0 then greatest(e.not_before, l.at + l.hold_s) else e.not_before end,
    is_on = e.is_on and not l.is_gone and not l.is_failed,
    off_reason = case when not e.is_on then e.off_reason when l.is_gone then 'gone'
                      when l.is_failed then 'failing' else '' end
from learned l where e.id = l.id
returning e.id, e.tenant, e.off_reason, l.was_on and not e.is_on as is_turned_off

-- name: give_back
update webhook_delivery d set state = 'due', runner = null, attempt = d.attempt - 1
from unnest($1::bigint[], $2::int[]) as held (id, epoch)
where d.id = held.id and d.epoch = held.epoch and d.state = 'sending'

-- name: disabled
select tell($1, 'webhook.disabled', $2, '')

-- name: forget
with chosen as materialized (
    (select id from webhook_delivery where ended_at > 0 and ended_at < extract(epoch from clock_timestamp()) - $1
     order by ended_at limit $2)
    union
    select beyond.id from webhook_endpoint e cross join lateral (
        select id, ended_at from webhook_delivery where endpoint = e.id order by id desc offset $3 limit $2) as beyond
    where beyond.ended_at > 0
), old as (
    delete from webhook_delivery where id in (select id from chosen) and ended_at > 0 returning event
), unused as (
    delete from webhook_event e where (id in (select event from old) or id in (
        select id from webhook_event where created_at < extract(epoch from clock_timestamp()) - $1 limit $2
    )) and not exists (select from webhook_delivery d where d.event = e.id and d.id not in (select id from chosen))
)
select count(*) as gone from old

-- name: overfull
-- An endpoint with more due deliveries than it may have is off: its receiver does not follow.
update webhook_endpoint set is_on = false, off_reason = 'backlog'
where id in (
    select id from webhook_endpoint e
    where is_on and exists (
        select from webhook_delivery where endpoint = e.id and state = 'due' order by next_at, id offset $1 limit 1)
    order by id for update)
returning id, tenant, off_reason
