-- Records of one tenant, in one slot: their order by expiry, their sizes, and room made by dropping the oldest.
-- What still comes expires soon; what is complete expires late, the oldest first. Each script begins with this.
-- KEYS: index (zset, name -> expiry in ms), sizes (hash, name -> bytes, '' -> all together); ARGV[1]: stem of a record's keys
local index, sizes, stem = KEYS[1], KEYS[2], ARGV[1]
local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)

local function claim_of(name) return stem .. name .. ':claim' end
local function body_of(name) return stem .. name .. ':body' end

local function drop(name)
  redis.call('DEL', claim_of(name), body_of(name))
  local bytes = redis.call('HGET', sizes, name)
  if bytes then redis.call('HINCRBY', sizes, '', string.format('%d', -tonumber(bytes))) end
  redis.call('HDEL', sizes, name)
  redis.call('ZREM', index, name)
end

local function keep(name, keep_ms)
  redis.call('PEXPIRE', claim_of(name), keep_ms)
  redis.call('PEXPIRE', body_of(name), keep_ms)
  redis.call('ZADD', index, string.format('%.0f', now + keep_ms), name)
  if redis.call('PTTL', index) < keep_ms then
    redis.call('PEXPIRE', index, keep_ms)
    redis.call('PEXPIRE', sizes, keep_ms)
  end
end

local function is_ours(name, owner)
  local found = redis.call('GET', claim_of(name))
  return found and found:sub(-#owner) == owner
end

local function has_room(more_bytes, more_records, max_bytes, max_records, alive_ms)
  for _, name in ipairs(redis.call('ZRANGEBYSCORE', index, '-inf', string.format('%.0f', now), 'LIMIT', 0, 100)) do drop(name) end
  while tonumber(redis.call('HGET', sizes, '') or '0') + more_bytes > max_bytes
      or redis.call('ZCARD', index) + more_records > max_records do
    local oldest = redis.call('ZRANGEBYSCORE', index, '(' .. string.format('%.0f', now + alive_ms), '+inf', 'LIMIT', 0, 1)[1]
    if not oldest then return false end
    drop(oldest)
  end
  return true
end
