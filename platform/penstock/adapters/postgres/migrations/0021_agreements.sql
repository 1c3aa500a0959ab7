-- How often the models of two rules of an auto alias agree, by UTC minute: what `penstock aliases auto --report` reads.
create table rule_agreement (
    minute bigint not null,             -- Unix seconds / 60, by the clock of this server
    alias text not null,
    rule text not null,                 -- the rule that answered, and its version
    version text not null,
    other text not null,                -- the rule that was asked as well, and its version
    other_version text not null,
    pairs bigint not null check (pairs > 0),
    agreed bigint not null check (agreed >= 0),
    failed bigint not null check (failed >= 0),
    untold bigint not null check (untold >= 0 and agreed + failed + untold <= pairs),
    scored bigint not null check (scored between 0 and pairs),
    alike bigint not null check (alike between 0 and 100 * scored),
    paid numeric not null check (paid >= 0),
    other_paid numeric not null check (other_paid >= 0),
    primary key (minute, alias, rule, version, other, other_version)
);

-- Gateways add, and can neither read nor change what others have told. In order of the key, so that two never wait for
-- one another.
create function add_agreements(told jsonb) returns void language sql
    security definer set search_path = public, pg_temp as $$
    insert into rule_agreement as known
    select floor(extract(epoch from clock_timestamp()) / 60)::bigint, one.*
    from jsonb_to_recordset(told) as one (
        alias text, rule text, version text, other text, other_version text, pairs bigint, agreed bigint, failed bigint,
        untold bigint, scored bigint, alike bigint, paid numeric, other_paid numeric
    )
    order by alias, rule, version, other, other_version
    on conflict (minute, alias, rule, version, other, other_version) do update set
        pairs = known.pairs + excluded.pairs,
        agreed = known.agreed + excluded.agreed,
        failed = known.failed + excluded.failed,
        untold = known.untold + excluded.untold,
        scored = known.scored + excluded.scored,
        alike = known.alike + excluded.alike,
        paid = known.paid + excluded.paid,
        other_paid = known.other_paid + excluded.other_paid
$$;
revoke execute on function add_agreements(jsonb) from public;
