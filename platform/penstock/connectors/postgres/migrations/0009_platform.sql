-- Whose database this is: a fingerprint of the platform's key, written by the first process that starts on it.
create table platform (
    is_row boolean primary key default true check (is_row),
    fingerprint text not null
);
