-- Take every draw of a lease, or none. The server's clock counts, so gateways' clocks don't matter.
-- KEYS[1] the lease; KEYS[2..] one meter per draw.
-- ARGV: hold_ms, keep_ms, then per draw: kind, measure, amount, capacity, refill_per_ms
-- Answer: {1, remaining...} or {0, index of the draw that refused (from 1), wait_ms}
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local hold, keep = tonumber(ARGV[1]), tonumber(ARGV[2])
local lease = KEYS[1]
if redis.call('EXISTS', lease) == 1 then return redis.error_reply('LEASE exists') end

local draws = #KEYS - 1
local left = {}

for i = 1, draws do
  local key, at = KEYS[i + 1], 3 + (i - 1) * 5
  local kind, amount, capacity = ARGV[at], tonumber(ARGV[at + 2]), tonumber(ARGV[at + 3])
  local refill = tonumber(ARGV[at + 4])
  if kind == 'bucket' then
    local state = redis.call('HMGET', key, 'level', 'at')
    local level = capacity
    if state[1] then level = math.min(capacity, tonumber(state[1]) + (now - tonumber(state[2])) * refill) end
    if level < amount then
      if amount > capacity then return {0, i, -1} end
      return {0, i, math.ceil((amount - level) / refill)}
    end
    left[i] = level - amount
  elseif kind == 'slots' then
    redis.call('ZREMRANGEBYSCORE', key, '-inf', now)
    local used = redis.call('ZCARD', key)
    if used + amount > capacity then return {0, i, -2} end
    left[i] = capacity - used - amount
  else
    local expired = redis.call('ZRANGEBYSCORE', key .. ':due', '-inf', now)
    for _, id in ipairs(expired) do
      local held = redis.call('HGET', key, 'h' .. id)
      if held then
        redis.call('HINCRBY', key, 'held', -held)
        redis.call('HDEL', key, 'h' .. id)
      end
      redis.call('ZREM', key .. ':due', id)
    end
    local state = redis.call('HMGET', key, 'spent', 'held')
    local free = capacity - (tonumber(state[1]) or 0) - (tonumber(state[2]) or 0)
    if free < amount then return {0, i, -3} end
    left[i] = free - amount
  end
end

local record = {}
for i = 1, draws do
  local key, at = KEYS[i + 1], 3 + (i - 1) * 5
  local kind, measure, amount = ARGV[at], ARGV[at + 1], ARGV[at + 2]
  if kind == 'bucket' then
    redis.call('HSET', key, 'level', tostring(left[i]), 'at', now)
    redis.call('PEXPIRE', key, keep)
  elseif kind == 'slots' then
    redis.call('ZADD', key, now + hold, lease)
    redis.call('PEXPIRE', key, keep)
  else
    redis.call('HINCRBY', key, 'held', amount)
    redis.call('HSET', key, 'h' .. lease, amount)
    redis.call('ZADD', key .. ':due', now + hold, lease)
    redis.call('PEXPIRE', key, 32 * 24 * 3600 * 1000)
    redis.call('PEXPIRE', key .. ':due', 32 * 24 * 3600 * 1000)
  end
  record[#record + 1] = key
  record[#record + 1] = kind
  record[#record + 1] = measure
  record[#record + 1] = amount
  record[#record + 1] = ARGV[at + 3]
end
redis.call('RPUSH', lease, unpack(record))
redis.call('PEXPIRE', lease, keep)

local answer = {1}
for i = 1, draws do answer[i + 1] = math.floor(left[i]) end
return answer
