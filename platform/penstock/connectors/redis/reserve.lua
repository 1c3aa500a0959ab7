-- Take every draw of a lease, or none. The server's clock counts, so gateways' clocks don't matter.
-- It may be set back (also by a failover): then a bucket refills from now on, and no hold lasts longer than one hold.
-- Holds are all of one length where leases are asked for; those of adopted ones are shorter.
-- KEYS[1] the lease; KEYS[2..] one meter per draw.
-- ARGV: hold_ms, keep_ms, ask, look (take none) or adopt (take all, also where it doesn't fit), then per draw:
--   kind, measure, amount, capacity, refill_per_ms
-- Answer: {index of the draw that refused (from 1; 0 is granted), wait_ms, what that budget has spent, what running
--   leases hold of it (both 0 for other kinds), what each meter has left...}
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local hold, keep, asks = tonumber(ARGV[1]), tonumber(ARGV[2]), ARGV[3] == 'ask'
local looks = ARGV[3] == 'look'
local lease = KEYS[1]
local function shorten(key)
  if not asks then return end
  for _, id in ipairs(redis.call('ZRANGEBYSCORE', key, '(' .. (now + hold), '+inf')) do
    redis.call('ZADD', key, now + hold, id)
  end
end
if redis.call('EXISTS', lease) == 1 then return redis.error_reply('LEASE exists') end

local draws = #KEYS - 1
local free = {}
local answer = {0, 0, 0, 0}

for i = 1, draws do
  local key, at = KEYS[i + 1], 4 + (i - 1) * 5
  local kind, amount, capacity = ARGV[at], tonumber(ARGV[at + 2]), tonumber(ARGV[at + 3])
  local wait, spent, held = -1, 0, 0
  if kind == 'bucket' then
    local refill = tonumber(ARGV[at + 4])
    local state = redis.call('HMGET', key, 'level', 'at')
    free[i] = capacity
    if state[1] then
      local level, since = tonumber(state[1]), now - tonumber(state[2])
      if since < 0 then redis.call('HSET', key, 'at', now) end
      free[i] = math.min(capacity, level + math.max(0, since) * refill)
    end
    if amount <= capacity then wait = math.ceil((amount - free[i]) / refill) end
  elseif kind == 'slots' then
    redis.call('ZREMRANGEBYSCORE', key, '-inf', now)
    shorten(key)
    free[i] = capacity - redis.call('ZCARD', key)
  else
    local expired = redis.call('ZRANGEBYSCORE', key .. ':due', '-inf', now)
    for _, id in ipairs(expired) do
      local one = redis.call('HGET', key, 'h' .. id)
      if one then
        redis.call('HINCRBY', key, 'held', -one)
        redis.call('HDEL', key, 'h' .. id)
      end
      redis.call('ZREM', key .. ':due', id)
    end
    shorten(key .. ':due')
    local state = redis.call('HMGET', key, 'spent', 'held')
    spent, held = tonumber(state[1]) or 0, tonumber(state[2]) or 0
    free[i] = capacity - spent - held
  end
  if (asks or looks) and answer[1] == 0 and free[i] < amount then answer = {i, wait, spent, held} end
end

if answer[1] > 0 then
  for i = 1, draws do answer[i + 4] = math.floor(free[i]) end
  return answer
end
if looks then
  for i = 1, draws do answer[i + 4] = math.floor(free[i] - tonumber(ARGV[6 + (i - 1) * 5])) end
  return answer
end

local record = {}
for i = 1, draws do
  local key, at = KEYS[i + 1], 4 + (i - 1) * 5
  local kind, amount = ARGV[at], ARGV[at + 2]
  local left = free[i] - tonumber(amount)
  if kind == 'bucket' then
    redis.call('HSET', key, 'level', tostring(left), 'at', now)
    redis.call('PEXPIRE', key, keep)
  elseif kind == 'slots' then
    for slot = 1, tonumber(amount) do redis.call('ZADD', key, now + hold, lease .. '/' .. slot) end
    redis.call('PEXPIRE', key, keep)
  else
    redis.call('HINCRBY', key, 'held', amount)
    redis.call('HSET', key, 'h' .. lease, amount)
    redis.call('ZADD', key .. ':due', now + hold, lease)
    redis.call('PEXPIRE', key, 32 * 24 * 3600 * 1000)
    redis.call('PEXPIRE', key .. ':due', 32 * 24 * 3600 * 1000)
  end
  answer[i + 4] = math.floor(left)
  record[#record + 1] = key
  record[#record + 1] = kind
  record[#record + 1] = ARGV[at + 1]
  record[#record + 1] = amount
  record[#record + 1] = ARGV[at + 3]
end
redis.call('RPUSH', lease, unpack(record))
redis.call('PEXPIRE', lease, keep)
return answer
