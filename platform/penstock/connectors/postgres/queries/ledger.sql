-- name: append
insert into ledger (request, tenant, key, version, digest, api, priority, outcome, prompt_tokens, cached_tokens,
                    output_tokens, exact, gpu_s, cost, opened_at, closed_at, degraded, continued,
                    service_tier, price_factor)
select * from unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::text[],
                     $9::bigint[], $10::bigint[], $11::bigint[], $12::boolean[], $13::double precision[],
                     $14::bigint[], $15::double precision[], $16::double precision[],
                     $17::text[], $18::integer[], $19::text[], $20::double precision[])
on conflict (request) do nothing

-- name: page
select * from ledger
where ($1::text is null or tenant = $1) and closed_at >= $2 and closed_at < $3 and (closed_at, request) > ($4, $5)
order by closed_at, request
limit $6

-- name: spent
select key, tenant, sum(cost)::bigint as cost
from ledger
where opened_at >= $1 and opened_at < $2
group by key, tenant
order by tenant, key

-- name: spent_in
select key, tenant, cost
from ledger_sum
where period = $1
order by tenant, key

-- name: usage
select version, outcome, count(*) as requests, sum(prompt_tokens)::bigint as prompt_tokens,
       sum(cached_tokens)::bigint as cached_tokens, sum(output_tokens)::bigint as output_tokens,
       sum(gpu_s) as gpu_s, sum(cost)::bigint as cost
from ledger
where tenant = $1 and closed_at >= $2 and closed_at < $3
group by version, outcome
order by version, outcome

-- name: ended
select version, outcome, sum(ended.requests - coalesce(forgiven.requests, 0))::bigint as requests
from outcome_sum as ended left join forgiven_sum as forgiven using (hour, version, outcome)
where hour >= $1 and ended.requests > coalesce(forgiven.requests, 0)
group by version, outcome
order by version, outcome

-- name: forgive
select add_forgiven($1::bigint[], $2::text[], $3::text[], $4::bigint[])
