-- Where a tenant wants to be told of its events, and what is told. Times are Unix seconds by the clock of this server,
-- so that no sender's clock decides what is due.
create table webhook_endpoint (
    id text primary key,                                    -- 'we_<hex>'
    tenant text not null,
    url text not null,
    events text[] not null,                                 -- types; '*': all; none: only what names this endpoint
    secret bytea not null,                                  -- sealed
    previous_secret bytea not null default '',              -- sealed; signs beside it until previous_until
    previous_until double precision not null default 0,
    is_on boolean not null default true,
    off_reason text not null default '',
    failing_since double precision not null default 0,      -- the first failed attempt since the last answer 2xx
    answered_at double precision not null default 0,        -- the last answer 2xx
    not_before double precision not null default 0,         -- the receiver asked for silence until then
    created_at double precision not null,
    unique (tenant, url)
);

create table webhook_event (
    id text primary key,                                    -- 'evt_<hex>'
    tenant text not null,
    type text not null,
    object text not null,                                   -- the id of what it is about
    created_at double precision not null
);
create index webhook_event_created on webhook_event (created_at);

create table webhook_delivery (
    id bigint generated always as identity primary key,
    event text not null,
    endpoint text not null,
    state text not null default 'due' check (state in ('due', 'sending', 'delivered', 'failed')),
    attempt int not null default 0,                         -- attempts that were begun
    next_at double precision not null,
    last_status int not null default 0,
    last_error text not null default '',                    -- a code, never the receiver's words
    runner bigint,
    epoch int not null default 0,                           -- a sender that lost it can't end it
    created_at double precision not null,
    ended_at double precision not null default 0
) with (fillfactor = 70);
create index webhook_delivery_due on webhook_delivery (endpoint, next_at, id) where state = 'due';
create index webhook_delivery_sending on webhook_delivery (runner) where state = 'sending';
create index webhook_delivery_shown on webhook_delivery (endpoint, id);
create index webhook_delivery_event on webhook_delivery (event);
create index webhook_delivery_ended on webhook_delivery (ended_at) where ended_at > 0;

-- Tell a tenant's endpoints of an event, in the transaction of what it tells of. `in_endpoint` (or '') is told beside
-- those that subscribed to the type. Without a receiver nothing is stored.
create function tell(in_tenant text, in_type text, in_object text, in_endpoint text) returns void language sql
    security definer set search_path = public, pg_temp as $$
    with receiver as materialized (
        select id from webhook_endpoint
        where tenant = in_tenant and is_on
          and (id = in_endpoint or in_type <> 'webhook.test' and (in_type = any(events) or '*' = any(events)))
    ), event as (
        insert into webhook_event (id, tenant, type, object, created_at)
        select 'evt_' || replace(gen_random_uuid()::text, '-', ''), in_tenant, in_type, in_object,
               extract(epoch from clock_timestamp())
        where exists (select from receiver)
        returning id, created_at
    )
    insert into webhook_delivery (event, endpoint, next_at, created_at)
    select event.id, receiver.id, event.created_at, event.created_at from event, receiver
$$;
revoke execute on function tell(text, text, text, text) from public;
