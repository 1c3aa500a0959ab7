-- Correct what budgets' meters have counted; holds stay. KEYS the meters. ARGV: at_least or exactly, then an amount each.
for i, key in ipairs(KEYS) do
  local counted = tonumber(redis.call('HGET', key, 'spent') or '0')
  if ARGV[1] == 'exactly' or counted < tonumber(ARGV[i + 1]) then
    redis.call('HSET', key, 'spent', ARGV[i + 1])
    redis.call('PEXPIRE', key, 32 * 24 * 3600 * 1000)
  end
end
return 1
