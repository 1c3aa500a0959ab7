-- name: table_stamp
select coalesce(max(number), 0) as stamp from routing_table

-- name: table_read
select number as stamp, body from routing_table order by number desc limit 1

-- name: keys_stamp
select number as stamp from key_change

-- name: keys_read
select
    (select number from key_change) as stamp,
    jsonb_build_object(
        'keys', (select coalesce(jsonb_agg(to_jsonb(api_key) order by id), '[]') from api_key),
        'tenants', (
            select coalesce(
                jsonb_agg(jsonb_build_object('id', id, 'name', name, 'plan', plan, 'org', org) order by id), '[]'
            )
            from tenant
        ),
        'orgs', (
            select coalesce(jsonb_agg(jsonb_build_object('id', id, 'name', name, 'plan', plan) order by id), '[]')
            from org
        )
    ) as body

-- name: safety_stamp
select coalesce((select max(number) from safety_choice), 0) + coalesce((select max(number) from safety_floor), 0)

-- name: safety_read
select
    coalesce((select max(number) from safety_choice), 0)
        + coalesce((select max(number) from safety_floor), 0) as stamp,
    jsonb_build_object(
        'packs', (
            select coalesce(jsonb_agg(jsonb_build_object('digest', digest, 'pack', pack) order by id), '[]')
            from safety_pack
            where digest in (select distinct on (id) digest from safety_choice order by id, number desc)
        ),
        'floor', coalesce((select to_jsonb(packs) from safety_floor order by number desc limit 1), '[]')
    ) as body
