-- Acts that wait for their link in the chain, noted with each act in its own transaction: however late that commits, the
-- sequencer finds the row, which it would not by "id > last".
create table audit_pending (
    event bigint primary key,
    noted_at double precision not null default extract(epoch from clock_timestamp())
);

-- Each link's hash covers the one before it, its number and the whole act.
create table audit_link (
    number bigint primary key check (number > 0),
    event bigint not null unique,
    hash bytea not null check (octet_length(hash) = 32)
);

-- Signed stretches of the chain. "head" is the signed statement, word for word; times are the database's.
create table audit_segment (
    "last" bigint primary key,
    "first" bigint not null unique check ("first" > 0 and "first" <= "last"),
    head text not null,
    signature bytea not null check (signature <> ''),
    closed_at double precision not null default extract(epoch from clock_timestamp()),
    shipped_at double precision not null default 0,
    moved_at double precision not null default 0
);
create index audit_segment_unshipped on audit_segment ("last") where shipped_at = 0;
create index audit_segment_kept on audit_segment ("last") where moved_at = 0;

create function await_link() returns trigger language plpgsql
    security definer set search_path = public, pg_temp as $$
begin
    insert into audit_pending (event) select id from added;
    return null;
end $$;
create trigger audit_event_awaits_link after insert on audit_event
    referencing new table as added for each statement execute function await_link();
insert into audit_pending (event) select id from audit_event;

-- An act leaves the database only with its link, and only from a segment that is shipped.
create function is_shipped(link bigint) returns boolean language sql stable
    security definer set search_path = public, pg_temp as $$
    select coalesce((select shipped_at > 0 and link >= "first" from audit_segment
                     where "last" >= link order by "last" limit 1), false)
$$;
create function refuse_early_end() returns trigger language plpgsql as $$
declare
    link bigint;
begin
    if tg_op = 'DELETE' then
        if tg_table_name = 'audit_link' then
            link := old.number;
        else
            select number into link from audit_link where event = old.id;
        end if;
        if is_shipped(link) then
            return old;
        end if;
    end if;
    raise exception '% is written once and never changed', tg_table_name using errcode = 'integrity_constraint_violation';
end $$;
drop trigger audit_event_immutable on audit_event;
create trigger audit_event_immutable before update or delete on audit_event
    for each row execute function refuse_early_end();
create trigger audit_link_immutable before update or delete on audit_link
    for each row execute function refuse_early_end();
create trigger audit_link_kept before truncate on audit_link for each statement execute function refuse_change();

create function refuse_other_segment() returns trigger language plpgsql as $$
begin
    if tg_op = 'UPDATE' and row(new."last", new."first", new.head, new.signature, new.closed_at)
        = row(old."last", old."first", old.head, old.signature, old.closed_at)
        and (old.shipped_at = 0 or new.shipped_at = old.shipped_at) then
        return new;
    end if;
    raise exception 'audit_segment is written once and never changed' using errcode = 'integrity_constraint_violation';
end $$;
create trigger audit_segment_immutable before update or delete on audit_segment
    for each row execute function refuse_other_segment();
create trigger audit_segment_kept before truncate on audit_segment for each statement execute function refuse_change();

-- Takes a shipped segment's acts and links out of the database; the segment's row stays.
create function audit_move(segment bigint) returns void language plpgsql
    security definer set search_path = public, pg_temp as $$
declare
    bounds record;
begin
    select "first", "last" into bounds from audit_segment where "last" = segment and shipped_at > 0 and moved_at = 0
        for update;
    delete from audit_event using audit_link
        where audit_link.event = audit_event.id and audit_link.number between bounds."first" and bounds."last";
    delete from audit_link where number between bounds."first" and bounds."last";
    update audit_segment set moved_at = extract(epoch from clock_timestamp()) where "last" = bounds."last";
end $$;
revoke execute on function audit_move(bigint) from public;
