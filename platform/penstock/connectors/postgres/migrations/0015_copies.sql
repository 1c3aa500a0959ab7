-- Shadow copies have ledger rows, which somebody pays, and spend no error budget: no caller has seen how they ended.
create or replace function add_to_outcome_sums() returns trigger language plpgsql
    security definer set search_path = public, pg_temp as $$
begin
    insert into outcome_sum as known (hour, version, outcome, requests)
    select floor(closed_at / 3600)::bigint, version, outcome, count(*)
    from added
    where tenant <> '_shadow'
    group by 1, 2, 3
    order by 1, 2, 3
    on conflict (hour, version, outcome) do update set requests = known.requests + excluded.requests;
    return null;
end $$;
