-- Budgets are read from these sums: only the ledger itself adds to them, upwards, and nobody takes them away.
create function guard_ledger_sum() returns trigger language plpgsql as $$
begin
    if pg_trigger_depth() < 2 then     -- 1 is this trigger, 2 means that the ledger's own has called it
        raise exception '% is kept by the ledger alone', tg_table_name using errcode = 'integrity_constraint_violation';
    end if;
    if tg_op = 'UPDATE' and ((new.period, new.tenant, new.key) is distinct from (old.period, old.tenant, old.key)
                             or new.cost < old.cost or new.requests < old.requests) then
        raise exception 'a sum in % only grows', tg_table_name using errcode = 'integrity_constraint_violation';
    end if;
    return new;
end $$;

create trigger ledger_sum_guarded before insert or update on ledger_sum
    for each row execute function guard_ledger_sum();
create trigger ledger_sum_kept before delete on ledger_sum
    for each row execute function refuse_change();
create trigger ledger_sum_not_emptied before truncate on ledger_sum
    for each statement execute function refuse_change();
