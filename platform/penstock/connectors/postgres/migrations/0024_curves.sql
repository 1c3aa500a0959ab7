-- The measured curves of versions: the newest of each hardware.
create table version_curve (
    version text not null references model_version,
    hardware text not null,
    curve jsonb not null,
    primary key (version, hardware)
);
