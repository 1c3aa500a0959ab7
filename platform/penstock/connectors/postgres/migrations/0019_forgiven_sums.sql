-- Of the ends in outcome_sum those that were their callers' own doing, by UTC hour: promises forgive them, and an error
-- budget does not count them. The ledger's row says how a request ended; whose doing it was is known seconds later.
create table forgiven_sum (
    hour bigint not null,               -- Unix seconds / 3600
    version text not null,
    outcome text not null check (outcome <> 'ok'),
    requests bigint not null check (requests > 0),
    primary key (hour, version, outcome)
);

-- Gateways add, and can neither read nor change what others have told. In one order everywhere (see 0005).
create function add_forgiven(hours bigint[], versions text[], outcomes text[], counts bigint[]) returns void
    language sql security definer set search_path = public, pg_temp as $$
    insert into forgiven_sum as known (hour, version, outcome, requests)
    select hour, version, outcome, sum(many)
    from unnest(hours, versions, outcomes, counts) as told (hour, version, outcome, many)
    group by 1, 2, 3
    order by 1, 2, 3
    on conflict (hour, version, outcome) do update set requests = known.requests + excluded.requests
$$;
revoke execute on function add_forgiven(bigint[], text[], text[], bigint[]) from public;

create function guard_forgiven_sum() returns trigger language plpgsql as $$
begin
    if (new.hour, new.version, new.outcome) is distinct from (old.hour, old.version, old.outcome)
       or new.requests < old.requests then
        raise exception 'a sum in % only grows', tg_table_name using errcode = 'integrity_constraint_violation';
    end if;
    return new;
end $$;

create trigger forgiven_sum_guarded before update on forgiven_sum
    for each row execute function guard_forgiven_sum();
create trigger forgiven_sum_kept before delete on forgiven_sum
    for each row execute function refuse_change();
create trigger forgiven_sum_not_emptied before truncate on forgiven_sum
    for each statement execute function refuse_change();
