-- ARGV: stem, name, owner, keep_ms, alive_ms, max_bytes, bytes, fields of the entry (none: a sign of life)
local name, owner, more_bytes = ARGV[2], ARGV[3], tonumber(ARGV[7])
if not is_ours(name, owner) then return 0 end
if #ARGV > 7 then
  if not has_room(more_bytes, 0, tonumber(ARGV[6]), math.huge, tonumber(ARGV[5])) then
    drop(name)
    return 0
  end
  redis.call('XADD', body_of(name), '*', unpack(ARGV, 8))
  redis.call('HINCRBY', sizes, name, more_bytes)
  redis.call('HINCRBY', sizes, '', more_bytes)
end
keep(name, tonumber(ARGV[4]))
return 1
