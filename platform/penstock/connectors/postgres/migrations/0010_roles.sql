-- Processes come in by roles of their own, which may not write what the database itself keeps: these two functions do it
-- as the owner of the tables, whoever's change has called them.
alter function note_key_change() security definer set search_path = public, pg_temp;
alter function add_to_ledger_sums() security definer set search_path = public, pg_temp;
