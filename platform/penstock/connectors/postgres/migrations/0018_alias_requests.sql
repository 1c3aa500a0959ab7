-- How many requests each alias had, by UTC minute: what a rollout's plan reads. The ledger knows versions alone, and one
-- version may answer for several aliases.
create table alias_minute (
    minute bigint not null,             -- Unix seconds / 60, by the clock of this server
    alias text not null,
    requests bigint not null check (requests > 0),
    primary key (minute, alias)
);

-- Gateways add, and can neither read nor change what others have told. In order of their names, so that two never wait
-- for one another.
create function add_alias_requests(aliases text[], counts bigint[]) returns void language sql
    security definer set search_path = public, pg_temp as $$
    insert into alias_minute as known (minute, alias, requests)
    select floor(extract(epoch from clock_timestamp()) / 60)::bigint, alias, many
    from unnest(aliases, counts) as told (alias, many)
    order by alias
    on conflict (minute, alias) do update set requests = known.requests + excluded.requests
$$;
revoke execute on function add_alias_requests(text[], bigint[]) from public;
