-- ARGV: stem, name, owner (empty: whoever owns it)
if ARGV[3] == '' or is_ours(ARGV[2], ARGV[3]) then drop(ARGV[2]) end
return 1
