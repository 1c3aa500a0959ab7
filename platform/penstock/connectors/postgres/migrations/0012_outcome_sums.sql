-- How the requests of each version ended, by UTC hour of their end, kept by the ledger itself: an error budget is read
-- from a few hundred rows, where no Prometheus tells it.
create table outcome_sum (
    hour bigint not null,               -- Unix seconds / 3600
    version text not null,
    outcome text not null,
    requests bigint not null,
    primary key (hour, version, outcome)
) with (fillfactor = 70);

-- As the owner of the tables, in one order everywhere (see 0005 and 0010).
create function add_to_outcome_sums() returns trigger language plpgsql
    security definer set search_path = public, pg_temp as $$
begin
    insert into outcome_sum as known (hour, version, outcome, requests)
    select floor(closed_at / 3600)::bigint, version, outcome, count(*)
    from added
    group by 1, 2, 3
    order by 1, 2, 3
    on conflict (hour, version, outcome) do update set requests = known.requests + excluded.requests;
    return null;
end $$;

create trigger ledger_outcomes_summed after insert on ledger referencing new table as added
    for each statement execute function add_to_outcome_sums();

insert into outcome_sum (hour, version, outcome, requests)
select floor(closed_at / 3600)::bigint, version, outcome, count(*) from ledger group by 1, 2, 3;

create function guard_outcome_sum() returns trigger language plpgsql as $$
begin
    if pg_trigger_depth() < 2 then     -- 1 is this trigger, 2 means that the ledger's own has called it
        raise exception '% is kept by the ledger alone', tg_table_name using errcode = 'integrity_constraint_violation';
    end if;
    if tg_op = 'UPDATE' and ((new.hour, new.version, new.outcome) is distinct from (old.hour, old.version, old.outcome)
                             or new.requests < old.requests) then
        raise exception 'a sum in % only grows', tg_table_name using errcode = 'integrity_constraint_violation';
    end if;
    return new;
end $$;

create trigger outcome_sum_guarded before insert or update on outcome_sum
    for each row execute function guard_outcome_sum();
create trigger outcome_sum_kept before delete on outcome_sum
    for each row execute function refuse_change();
create trigger outcome_sum_not_emptied before truncate on outcome_sum
    for each statement execute function refuse_change();
