-- ARGV: stem, name, fingerprint, owner, alive_ms, max_bytes, max_records
local name, print, owner, alive_ms = ARGV[2], ARGV[3], ARGV[4], tonumber(ARGV[5])
local found = redis.call('GET', claim_of(name))
if found then
  if found:sub(1, #print + 1) ~= print .. ' ' then return 'other' end
  if redis.call('PTTL', claim_of(name)) > alive_ms then return 'same' end
  return 'growing'
end
drop(name)
if not has_room(0, 1, tonumber(ARGV[6]), tonumber(ARGV[7]), alive_ms) then return 'full' end
redis.call('SET', claim_of(name), print .. ' ' .. owner)
redis.call('HSET', sizes, name, 0)
keep(name, alive_ms)
return 'mine'
