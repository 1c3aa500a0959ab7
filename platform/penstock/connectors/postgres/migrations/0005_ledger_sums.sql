-- What each key spent a day and a month (UTC, by when its requests were opened), kept by the ledger itself: a row and
-- its sums are one transaction, so they can't differ, and a budget is read without the rows behind it.
create table ledger_sum (
    period text not null,               -- 2026-11-21 or 2026-11
    tenant text not null,
    key text not null,
    cost bigint not null,
    requests bigint not null,
    primary key (period, tenant, key)
) with (fillfactor = 70);               -- a hot row's versions stay on its page

-- Sums are added in one order everywhere, so that two deliveries wait for one another and never in a circle.
create function add_to_ledger_sums() returns trigger language plpgsql as $$
begin
    insert into ledger_sum as known (period, tenant, key, cost, requests)
    select period, tenant, key, sum(cost), count(*)
    from (select tenant, key, cost, to_char(date '1970-01-01' + floor(opened_at / 86400)::int, 'YYYY-MM-DD') as day
          from added) as each_row,
         lateral (values (day), (left(day, 7))) as periods (period)
    group by period, tenant, key
    order by period, tenant, key
    on conflict (period, tenant, key)
        do update set cost = known.cost + excluded.cost, requests = known.requests + excluded.requests;
    return null;
end $$;

create trigger ledger_summed after insert on ledger referencing new table as added
    for each statement execute function add_to_ledger_sums();

-- The trigger holds new rows back until this is committed, so none is missed and none counted twice.
insert into ledger_sum (period, tenant, key, cost, requests)
select period, tenant, key, sum(cost), count(*)
from (select tenant, key, cost, to_char(date '1970-01-01' + floor(opened_at / 86400)::int, 'YYYY-MM-DD') as day
      from ledger) as each_row,
     lateral (values (day), (left(day, 7))) as periods (period)
group by period, tenant, key;
