-- Changes of scaled versions' numbers, of all leaders: the newest of each version.
create table scale_record (
    id bigint generated always as identity primary key,
    version text not null,
    body jsonb not null
);
create index scale_record_by_version on scale_record (version, id);
