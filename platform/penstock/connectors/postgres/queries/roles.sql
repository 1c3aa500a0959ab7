-- name: make
-- Roles belong to the whole server: another of its databases may have made them, or be about to.
do $$
declare
    one text;
begin
    foreach one in array array['penstock_gateway', 'penstock_controller', 'penstock_runner', 'penstock_auditors'] loop
        begin
            execute format('create role %I nologin', one);
        exception when duplicate_object or unique_violation then null;
        end;
    end loop;
end $$

-- name: noted
insert into audit_event (at, who, what, target, detail)
values (extract(epoch from clock_timestamp()), 'platform', 'database.grant', $1, '')

-- name: with_password
select format('alter role %I login password %L', $1::text, $2::text) as statement

-- name: trusted
select format('alter role %I login', $1::text) as statement

-- name: grant
revoke all on all tables in schema public
    from public, penstock_gateway, penstock_controller, penstock_runner, penstock_auditors;
revoke create on schema public
    from public, penstock_gateway, penstock_controller, penstock_runner, penstock_auditors;
grant usage on schema public to penstock_gateway, penstock_controller, penstock_runner, penstock_auditors;

-- Gateways and runners read what they serve by, and append. Of a row they see what tells that it is there already.
grant select on routing_table, key_change, api_key, tenant, org, ledger_sum, platform to penstock_gateway, penstock_runner;
grant insert, select (request) on ledger to penstock_gateway, penstock_runner;
grant insert on arm_second to penstock_gateway, penstock_runner;
grant execute on function add_alias_requests(text[], bigint[]) to penstock_gateway, penstock_runner;
grant execute on function add_agreements(jsonb) to penstock_gateway, penstock_runner;
grant execute on function add_forgiven(bigint[], text[], text[], bigint[]) to penstock_gateway, penstock_runner;
grant select on safety_pack, safety_choice, safety_floor to penstock_gateway, penstock_runner;
grant insert, select (request, number) on intervention to penstock_gateway, penstock_runner;
-- Gateways count texts; runners read them for the users that they name, and sweep them.
grant insert, select (request, number, tenant) on intervention_text to penstock_gateway;
grant select, insert, delete on intervention_text to penstock_runner;
grant insert, select (id, what, target) on audit_event to penstock_gateway;
grant select, insert, update, delete on webhook_endpoint to penstock_gateway;
grant select, update, delete on webhook_delivery to penstock_gateway, penstock_runner;
grant select, delete on webhook_event to penstock_gateway;
grant select, update on webhook_endpoint to penstock_runner;
grant select, delete on webhook_event to penstock_runner;
grant execute on function tell(text, text, text, text) to penstock_gateway, penstock_runner, penstock_controller;

-- Both take in jobs, and cancel and pause them; claims are runners' alone, through functions.
grant select on job_attempt, job_lane, job_pause, job_enqueued, runner to penstock_gateway, penstock_runner;
grant select, insert, update on job to penstock_gateway, penstock_runner;
grant insert, delete on job_pause to penstock_gateway, penstock_runner;
grant select, insert, delete on job_act to penstock_gateway, penstock_runner;
grant delete on job_attempt to penstock_gateway, penstock_runner, penstock_controller;
grant select, insert, update on batch to penstock_gateway, penstock_runner;
grant insert, update, delete on runner to penstock_runner;
grant delete on job to penstock_runner;
grant insert on job_attempt to penstock_runner;
grant select, insert, update on job_told to penstock_runner;
grant execute on function job_claim(bigint, text[], int[], jsonb, double precision) to penstock_runner;
grant execute on function job_mend(double precision) to penstock_runner;
grant execute on function job_end_queued(double precision, int) to penstock_runner;
grant execute on function job_end_overdue(double precision) to penstock_runner;
grant execute on function job_recover() to penstock_runner;
grant execute on function job_paid(text, int) to penstock_runner;
grant execute on function job_take_over(bigint, double precision) to penstock_runner;
grant execute on function oldest_transaction_s() to penstock_runner;

-- Runners sweep what controllers were asked to delete, and gateways drop answers.
grant select, update on privacy_deletion to penstock_runner;
grant select, update (answers, answers_at) on privacy_deletion to penstock_gateway;
grant delete on batch to penstock_runner;
grant insert, update on privacy_deletion to penstock_controller;

-- Tenants' keys are made with the first thing that is sealed; controllers rotate, wrap anew and shred them.
grant select, insert on tenant_key to penstock_gateway, penstock_runner;
grant insert, update, delete on tenant_key to penstock_controller;

-- Gateways keep and delete files; runners write outputs, and drop rows whose bytes are gone.
grant select, insert, update on file to penstock_gateway, penstock_runner;
grant delete on file to penstock_runner;

-- Responses are kept, read and deleted by both; their events are added by runners.
grant select, insert, delete on stored_response, response_events to penstock_gateway, penstock_runner;
grant update (expires_at) on stored_response to penstock_gateway;
grant update (event_bytes) on stored_response to penstock_runner;

-- Controllers read everything, and write what operators and workers tell; bills they only read.
grant select on all tables in schema public to penstock_controller;
grant insert on safety_pack, safety_choice, safety_floor to penstock_controller;
grant execute on function forget_interventions(double precision) to penstock_controller;
grant insert on model_version, alias_route, auto_alias, version_tenants, audit_event to penstock_controller;
grant insert, update on api_key, tenant, org, deployment, version_curve, platform to penstock_controller;
grant insert, update, delete on worker_lease to penstock_controller;
grant delete on arm_second, alias_minute, rule_agreement to penstock_controller;
grant insert, update on rollout to penstock_controller;
grant insert on rollout_change to penstock_controller;
grant update on job to penstock_controller;
grant insert, delete on job_pause to penstock_controller;
grant insert, delete on routing_table, scale_record to penstock_controller;
grant insert on audit_link, audit_segment to penstock_controller;
grant delete on audit_pending to penstock_controller;
grant update (shipped_at) on audit_segment to penstock_controller;
grant execute on function audit_move(bigint) to penstock_controller;

-- Auditors read who did what and what it cost, and no hash of a key.
grant select on ledger, ledger_sum, outcome_sum, forgiven_sum, rollout, rollout_change, audit_event, tenant, org, model_version, alias_route, auto_alias, deployment,
    routing_table, safety_pack, safety_choice, safety_floor, intervention, audit_link, audit_segment, privacy_deletion,
    audit_pending to penstock_auditors;
grant select (id, tenant, role, models, created_at, expires_at, revoked_at, plan, successor) on api_key to penstock_auditors
