-- A gateway says that it is there and that the store knows all it gave; who is silent for alive_ms is gone.
-- KEYS[1] the gateways, KEYS[2] the store's own mark. ARGV: gateway, alive_ms, since_ms (0: ever), mark
-- Answer: {the server's ms, gateways there, gateways that said so after since_ms, the mark}
-- The mark is made by whoever finds none: another one than before means that the store has forgotten.
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local alive = tonumber(ARGV[2])
redis.call('SET', KEYS[2], ARGV[4], 'NX')
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now)
-- Whoever said so before the clock was set back is there no longer than anybody else.
for _, gateway in ipairs(redis.call('ZRANGEBYSCORE', KEYS[1], '(' .. (now + alive), '+inf')) do
  redis.call('ZADD', KEYS[1], now + alive, gateway)
end
redis.call('ZADD', KEYS[1], now + alive, ARGV[1])
redis.call('PEXPIRE', KEYS[1], alive)
return {
  now,
  redis.call('ZCARD', KEYS[1]),
  redis.call('ZCOUNT', KEYS[1], '(' .. (tonumber(ARGV[3]) + alive), '+inf'),
  redis.call('GET', KEYS[2])
}
