-- A key has one successor: who rotates it again is told that one's id.
alter table api_key add column successor text references api_key;
