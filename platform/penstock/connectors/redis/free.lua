-- Give back a lease's slots before it is settled: it runs no more. Its record stays, with a slot that nobody renews.
-- KEYS[1] the lease. Answer: how many slots it had.
local lease, freed = KEYS[1], 0
local record = redis.call('LRANGE', lease, 0, -1)
for i = 1, #record, 5 do
  if record[i + 1] == 'slots' then
    for slot = 1, tonumber(record[i + 3]) do redis.call('ZREM', record[i], lease .. '/' .. slot) end
    redis.call('LSET', lease, i, 'freed')
    freed = freed + 1
  end
end
return freed
