-- Replace what a lease reserved by what it used. A lease settles once: its record is gone afterwards.
-- KEYS[1] the lease. ARGV: pairs of measure and actual amount. Answer: 1 the first time, 0 after that.
local lease = KEYS[1]
local record = redis.call('LRANGE', lease, 0, -1)
if #record == 0 then return 0 end
redis.call('DEL', lease)

local actual = {}
for i = 1, #ARGV, 2 do actual[ARGV[i]] = tonumber(ARGV[i + 1]) end

for i = 1, #record, 5 do
  local key, kind, measure = record[i], record[i + 1], record[i + 2]
  local reserved, capacity = tonumber(record[i + 3]), tonumber(record[i + 4])
  local used = actual[measure]
  if used == nil then used = reserved end
  if kind == 'bucket' then
    local level = redis.call('HGET', key, 'level')
    if level then
      redis.call('HSET', key, 'level', tostring(math.min(capacity, tonumber(level) + reserved - used)))
    end
  elseif kind == 'slots' then
    for slot = 1, reserved do redis.call('ZREM', key, lease .. '/' .. slot) end
  elseif kind == 'budget' then
    local held = redis.call('HGET', key, 'h' .. lease)
    if held then
      redis.call('HINCRBY', key, 'held', -held)
      redis.call('HDEL', key, 'h' .. lease)
      redis.call('ZREM', key .. ':due', lease)
    end
    redis.call('HINCRBY', key, 'spent', used)
    redis.call('PEXPIRE', key, 32 * 24 * 3600 * 1000)
  end
end
return 1
