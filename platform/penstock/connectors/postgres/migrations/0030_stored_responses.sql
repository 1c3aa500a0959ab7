-- Responses that are kept for their tenant. Their texts are sealed objects: rows hold names and offsets.
create table stored_response (
  id text primary key,
  tenant text not null,
  object text not null unique,
  created_at double precision not null,
  expires_at double precision not null,
  begin_bytes bigint not null,
  input_at bigint not null,
  input_bytes bigint not null,
  body_at bigint not null,
  body_bytes bigint not null,
  is_background boolean not null,
  keeps_events boolean not null
);
create index stored_response_expires on stored_response (expires_at);

-- Events of a background response: one row for each sealed object of them.
-- "first" and "last" are sequence numbers; "open" names output items that are not done, by index.
create table response_events (
  response text not null references stored_response (id) on delete cascade,
  epoch int not null,
  "first" bigint not null,
  "last" bigint not null,
  object text not null,
  items int not null,
  open jsonb not null,
  primary key (response, "first")
);
