-- Deletions of what a tenant has stored. A row is what is left of one to do, and then its receipt. A user is a keyed
-- digest here, and "found" the ids whose content names it: null until a runner has looked.
create table privacy_deletion (
    id bigint generated always as identity primary key,
    tenant text not null,
    request text not null default '' check (length(request) <= 128),    -- empty: not one thing alone
    user_mark text not null default '' check (length(user_mark) <= 64),
    before double precision not null default 0,     -- as it was asked for; 0: all
    until double precision not null,                -- made before
    asked_by text not null,
    asked_at double precision not null,
    found text[],
    keys int not null default 0,
    jobs int not null default 0,
    lines int not null default 0,
    batches int not null default 0,
    files int not null default 0,
    responses int not null default 0,
    answers int not null default 0,
    bytes bigint not null default 0,
    training_use boolean not null default false,    -- what the tenant's plan said
    unattributed int not null default 0,            -- files of results whose input is gone: perhaps of that user
    answers_at double precision not null default 0,
    swept_at double precision not null default 0,
    ended_at double precision not null default 0,
    receipt text not null default '',
    signature bytea not null default ''
);
create index privacy_deletion_open on privacy_deletion (id) where ended_at = 0;

create function refuse_ended() returns trigger language plpgsql as $$
begin
    if old.ended_at > 0 then
        raise exception '% is written once and never changed', tg_table_name
            using errcode = 'integrity_constraint_violation';
    end if;
    return new;
end $$;
create trigger privacy_deletion_ended before update on privacy_deletion
    for each row execute function refuse_ended();
create trigger privacy_deletion_kept before delete on privacy_deletion
    for each row execute function refuse_change();

-- Gateways drop answers under idempotency keys when they hear of it.
create function note_deletion() returns trigger language plpgsql
    security definer set search_path = public, pg_temp as $$
begin
    perform pg_notify('penstock_tenant_keys', new.tenant);
    return null;
end $$;
create trigger privacy_deletion_told after insert on privacy_deletion for each row execute function note_deletion();

-- Batches in the scope of a deletion: those that it names, all before its time, and those that read such a file.
create function erased_batches(whose text, named text[], until double precision) returns setof batch language sql stable
    set search_path = public, pg_temp as $$
    select batch.* from batch
    where batch.tenant = whose
      and case when named is null then
              batch.created_at < until
              or exists (select from file where file.id = input_file and file.tenant = whose and file.created_at < until)
          else batch.created_at < until and (batch.id = any(named) or input_file = any(named)) end
$$;

-- Files in the scope: also those that its batches read or wrote, but an input that another batch has, too.
create function erased_files(whose text, named text[], until double precision) returns setof file language sql stable
    set search_path = public, pg_temp as $$
    with gone as materialized (select * from erased_batches(whose, named, until))
    select file.* from file
    where file.tenant = whose
      and (case when named is null then file.created_at < until
           else file.created_at < until and file.id = any(named) end
           or file.id in (select output_file from gone union all select error_file from gone)
           or (file.id in (select input_file from gone)
               and not exists (select from batch where input_file = file.id and id not in (select id from gone))))
$$;
