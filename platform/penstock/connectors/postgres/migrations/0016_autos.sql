-- Every set of rules an auto alias ever had; the newest one counts, null takes the alias away.
create table auto_alias (
    id bigint generated always as identity primary key,
    alias text not null,
    auto jsonb,
    who text not null,
    put_at double precision not null
);
create index auto_alias_newest on auto_alias (alias, id desc);
create trigger auto_alias_kept before update or delete on auto_alias
    for each row execute function refuse_change();
create trigger auto_alias_not_emptied before truncate on auto_alias
    for each statement execute function refuse_change();
