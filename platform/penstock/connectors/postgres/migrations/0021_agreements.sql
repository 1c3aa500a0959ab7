-- How often the models of two rules of an auto alias agree, by UTC minute: what `penstock aliases auto --report` reads.
create table rule_agreement (
    minute bigint not null,             -- Unix seconds / 60, by the clock of this server
    alias text not null check (length(alias) <= 64),
    rule text not null check (length(rule) <= 64),          -- the rule that answered, and its version
    version text not null check (length(version) <= 128),
    other text not null check (length(other) <= 64),        -- the rule that was asked as well, and its version
    other_version text not null check (length(other_version) <= 128),
    tenant text not null check (length(tenant) <= 128),
    answered bigint not null check (answered between 0 and 1000000000),
    pairs bigint not null check (pairs between 0 and 1000000000),
    failed bigint not null check (failed >= 0),
    untold bigint not null check (untold >= 0),
    forms bigint not null check (forms >= 0),
    forms_agreed bigint not null check (forms_agreed between 0 and forms),
    texts bigint not null check (texts >= 0 and failed + untold + forms + texts = pairs),
    texts_agreed bigint not null check (texts_agreed between 0 and texts),
    alike bigint not null check (alike between 0 and 100 * texts),
    paid numeric not null check (paid between 0 and 1e18),              -- not a number is above every number
    other_paid numeric not null check (other_paid between 0 and 1e18),
    primary key (minute, alias, rule, version, other, other_version, tenant)
);

-- Gateways add, and can neither read nor change what others have told. In order of the key, so that two never wait for
-- one another.
create function add_agreements(told jsonb) returns void language sql
    security definer set search_path = public, pg_temp as $$
    insert into rule_agreement as known
    select floor(extract(epoch from clock_timestamp()) / 60)::bigint, one.*
    from jsonb_to_recordset(told) as one (
        alias text, rule text, version text, other text, other_version text, tenant text, answered bigint, pairs bigint,
        failed bigint, untold bigint, forms bigint, forms_agreed bigint, texts bigint, texts_agreed bigint,
        alike bigint, paid numeric, other_paid numeric
    )
    order by alias, rule, version, other, other_version, tenant
    on conflict (minute, alias, rule, version, other, other_version, tenant) do update set
        answered = known.answered + excluded.answered,
        pairs = known.pairs + excluded.pairs,
        failed = known.failed + excluded.failed,
        untold = known.untold + excluded.untold,
        forms = known.forms + excluded.forms,
        forms_agreed = known.forms_agreed + excluded.forms_agreed,
        texts = known.texts + excluded.texts,
        texts_agreed = known.texts_agreed + excluded.texts_agreed,
        alike = known.alike + excluded.alike,
        paid = known.paid + excluded.paid,
        other_paid = known.other_paid + excluded.other_paid
$$;
revoke execute on function add_agreements(jsonb) from public;
