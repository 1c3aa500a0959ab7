-- Keep the holds of living leases: their slots and budget holds are due hold_ms from now.
-- KEYS the leases. ARGV: hold_ms, keep_ms
local t = redis.call('TIME')
local due = t[1] * 1000 + math.floor(t[2] / 1000) + tonumber(ARGV[1])
for _, lease in ipairs(KEYS) do
  local record = redis.call('LRANGE', lease, 0, -1)
  for i = 1, #record, 5 do
    local key, kind = record[i], record[i + 1]
    if kind == 'slots' then
      for slot = 1, tonumber(record[i + 3]) do redis.call('ZADD', key, due, lease .. '/' .. slot) end
    elseif kind == 'budget' and redis.call('HEXISTS', key, 'h' .. lease) == 1 then
      redis.call('ZADD', key .. ':due', due, lease)
    end
  end
  if #record > 0 then redis.call('PEXPIRE', lease, ARGV[2]) end
end
return 1
