-- Pauses, resumes and replays of a tenant within the last minute: they stop work that is free, so their number is bounded.
create table job_act (
    tenant text not null,
    at double precision not null
);
create index job_act_tenant on job_act (tenant, at);
