-- ARGV: stem. Drops some of a tenant's records, and returns their number.
local names = redis.call('ZRANGE', index, 0, 199)
for _, name in ipairs(names) do drop(name) end
return #names
