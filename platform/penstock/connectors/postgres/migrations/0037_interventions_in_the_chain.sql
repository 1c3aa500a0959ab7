-- Interventions are in the audit chain by delivery: each row names the act that covers it, whose detail is a SHA-256 over
-- the delivery's rows. One act for up to 500 of them, so that an attack fills the chain with hundreds of times less.
create function next_act() returns bigint language sql volatile
    security definer set search_path = public, pg_temp as $$
    select nextval(pg_get_serial_sequence('audit_event', 'id'))
$$;

alter table intervention add column act bigint;
alter table intervention disable trigger intervention_immutable;
with one as materialized (select next_act() as act where exists (select from intervention)) update intervention set act = one.act from one;
alter table intervention enable trigger intervention_immutable;
-- The default is for gateways of the release before: each of their rows is an act of its own.
alter table intervention alter column act set default next_act(), alter column act set not null;
create index intervention_act on intervention (act);
create trigger intervention_kept before truncate on intervention for each statement execute function refuse_change();

create function sized(part text) returns bytea language sql immutable as $$
    select int4send(octet_length(part)) || convert_to(part, 'UTF8')
$$;
create function packed(one intervention) returns bytea language sql immutable as $$
    select int4send(one.number) || int8send(one.position) || float8send(one.at) || sized(one.request) || sized(one.tenant)
        || sized(one.version) || sized(one.pack) || sized(one.digest) || sized(one.rule) || sized(one.stage)
        || sized(one.action) || sized(one.wanted)
$$;
create function cover_interventions() returns trigger language plpgsql
    security definer set search_path = public, pg_temp as $$
begin
    insert into audit_event (id, at, who, what, target, detail) overriding system value
    select act, extract(epoch from clock_timestamp()), 'platform', 'safety.interventions', count(*)::text,
           encode(sha256(string_agg(packed(row(added.*)::intervention), ''::bytea order by request collate "C", number)), 'hex')
    from added group by act;
    return null;
end $$;
create trigger intervention_covered after insert on intervention
    referencing new table as added for each statement execute function cover_interventions();

insert into audit_event (id, at, who, what, target, detail) overriding system value
select act, extract(epoch from clock_timestamp()), 'platform', 'safety.interventions', count(*)::text,
       encode(sha256(string_agg(packed(one), ''::bytea order by request collate "C", number)), 'hex')
from intervention as one group by act;

-- Interventions end by delivery, and none that is younger than a quarter; they leave with their act if that goes earlier.
create index audit_event_interventions on audit_event (at) where what = 'safety.interventions';
create function forget_interventions(before double precision) returns void language sql
    security definer set search_path = public, pg_temp as $$
    delete from intervention using audit_event as covering
    where covering.id = intervention.act and covering.what = 'safety.interventions'
      and covering.at < least(before, extract(epoch from clock_timestamp()) - 90 * 86400)
$$;
revoke execute on function forget_interventions(double precision) from public;
create or replace function audit_move(segment bigint) returns void language plpgsql
    security definer set search_path = public, pg_temp as $$
declare
    bounds record;
begin
    select "first", "last" into bounds from audit_segment where "last" = segment and shipped_at > 0 and moved_at = 0
        for update;
    delete from intervention using audit_link
        where audit_link.event = intervention.act and audit_link.number between bounds."first" and bounds."last";
    delete from audit_event using audit_link
        where audit_link.event = audit_event.id and audit_link.number between bounds."first" and bounds."last";
    delete from audit_link where number between bounds."first" and bounds."last";
    update audit_segment set moved_at = extract(epoch from clock_timestamp()) where "last" = bounds."last";
end $$;
