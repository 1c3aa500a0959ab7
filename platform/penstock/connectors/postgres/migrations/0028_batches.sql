-- Batches of jobs. Lines are jobs of kind 'line'; counts of a live batch come from their rows, and stay here afterwards.
create table batch (
    id text primary key check (length(id) <= 64),
    tenant text not null,
    key text not null,
    endpoint text not null,
    input_file text not null,
    input_object text not null,
    completion_window text not null,
    state text not null,
    times jsonb not null default '{}',          -- state: the Unix second in which it was entered
    created_at double precision not null,
    deadline_at double precision not null,
    ended_at double precision not null default 0,
    metadata jsonb not null default '{}',
    output_keep_s double precision not null default 0,
    faults jsonb not null default '[]',         -- of a refused file: code, message, param, line; no text of a prompt
    versions jsonb not null default '{}',       -- model as asked: its version
    total int not null default 0,
    completed int not null default 0,
    failed int not null default 0,
    prompt_tokens bigint not null default 0,
    output_tokens bigint not null default 0,
    output_file text not null default '',
    error_file text not null default '',
    paused_at double precision not null default 0,
    is_late boolean not null default false,
    runner bigint,                              -- works on the batch itself: judges its file, writes its results
    epoch int not null default 0,
    tries int not null default 0,
    next_at double precision not null default 0,
    is_cleared boolean not null default false,  -- lines and their stored answers are deleted
    idempotency text not null default '' check (length(idempotency) <= 128),
    fingerprint text not null default ''
) with (fillfactor = 70);

create unique index batch_once on batch (tenant, idempotency) where idempotency <> '';
create index batch_of_tenant on batch (tenant, created_at, id);
create index batch_open on batch (state) where ended_at = 0;
create index batch_input on batch (input_file) where ended_at = 0;
create index batch_uncleared on batch (ended_at) where ended_at > 0 and not is_cleared;

-- The open batch that reads a file, or nothing: such a file is not deleted.
create function file_user(file text) returns text language sql stable set search_path = public, pg_temp as $$
    select id from batch where input_file = file and ended_at = 0 limit 1
$$;

-- Whether lines of a batch have not ended. Cheap for most: what is ready, then what runs, then what waits for its time.
create function batch_has_open_lines(which batch) returns boolean language plpgsql stable
    set search_path = public, pg_temp as $$
begin
    return exists (select from job where tenant = which.tenant and batch = which.id and state = 'queued' and not waits
                   and version in (select value from jsonb_each_text(which.versions)))
        or exists (select from job where batch = which.id and state = 'running')
        or exists (select from job where batch = which.id and state = 'queued' and waits);
end $$;
