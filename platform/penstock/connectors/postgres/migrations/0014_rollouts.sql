-- How candidates take aliases over, and every change of it. A rollout's row is its present state; its history is never
-- changed. The alias's route, the change and the act are written together with it.
create table rollout (
    id text primary key,
    alias text not null,
    number bigint not null check (number > 0),   -- of its last change
    is_over boolean not null,
    body jsonb not null
);
create unique index rollout_one_per_alias on rollout (alias) where not is_over;

create table rollout_change (
    rollout text not null references rollout,
    number bigint not null check (number > 0),
    body jsonb not null,
    primary key (rollout, number)
);
create trigger rollout_change_kept before update or delete on rollout_change
    for each row execute function refuse_change();
create trigger rollout_change_not_emptied before truncate on rollout_change
    for each statement execute function refuse_change();

create function guard_rollout() returns trigger language plpgsql as $$
begin
    if old.is_over or new.number <> old.number + 1 or (new.id, new.alias) is distinct from (old.id, old.alias) then
        raise exception 'a rollout goes on change by change until it is over'
            using errcode = 'integrity_constraint_violation';
    end if;
    return new;
end $$;
create trigger rollout_goes_on before update on rollout for each row execute function guard_rollout();
create trigger rollout_kept before delete on rollout for each row execute function refuse_change();
create trigger rollout_not_emptied before truncate on rollout for each statement execute function refuse_change();
