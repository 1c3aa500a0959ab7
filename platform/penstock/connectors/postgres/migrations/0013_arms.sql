-- What gateways saw of versions that share an alias, a second each, for the controllers' judges. Seconds come again by
-- themselves, and are gone a few minutes later: no write-ahead log.
create unlogged table arm_second (
    id bigint generated always as identity primary key,
    told_at double precision not null,   -- Unix seconds, by the clock of this server
    body text not null check (octet_length(body) <= 262144)
);
create index arm_second_told on arm_second (told_at);
