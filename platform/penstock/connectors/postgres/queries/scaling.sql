-- name: note
insert into scale_record (version, body)
select body ->> 'version', body from jsonb_array_elements($1::jsonb) with ordinality as told (body, place) order by place

-- name: bound
delete from scale_record where version = $1 and id <= (
    select id from scale_record where version = $1 order by id desc offset $2 limit 1
)

-- name: newest
select body from scale_record where $1 in ('', version) order by id desc limit $2
