-- Safety packs: each version as it was pushed, written once. Of each id the newest choice is served.
create table safety_pack (
    digest text primary key check (digest ~ '^[0-9a-f]{64}$'),
    id text not null check (length(id) <= 64),
    version int not null check (version > 0),
    pack text not null,
    created_at double precision not null,
    unique (id, version)
);
create table safety_choice (
    number bigint generated always as identity primary key,
    id text not null,
    digest text not null references safety_pack,
    who text not null,
    put_at double precision not null
);
create index safety_choice_id on safety_choice (id, number);
-- Packs that hold for every request of the platform: the newest row counts.
create table safety_floor (
    number bigint generated always as identity primary key,
    packs text[] not null,
    who text not null,
    put_at double precision not null
);

create trigger safety_pack_immutable before update or delete on safety_pack
    for each row execute function refuse_change();
create trigger safety_pack_kept before truncate on safety_pack
    for each statement execute function refuse_change();
create trigger safety_choice_immutable before update or delete on safety_choice
    for each row execute function refuse_change();
create trigger safety_floor_immutable before update or delete on safety_floor
    for each row execute function refuse_change();

create function note_safety_change() returns trigger language plpgsql as $$
begin
    perform pg_notify('penstock_safety', '');
    return null;
end $$;
create trigger safety_chosen after insert on safety_choice for each statement execute function note_safety_change();
create trigger safety_floor_put after insert on safety_floor for each statement execute function note_safety_change();
