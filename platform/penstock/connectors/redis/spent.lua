-- What budgets' meters have counted. KEYS the meters. Answer: one whole number each, 0 where nothing was counted.
local counted = {}
for i, key in ipairs(KEYS) do counted[i] = tonumber(redis.call('HGET', key, 'spent') or '0') end
return counted
