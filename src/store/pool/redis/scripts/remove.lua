-- ARGV: 2 node, 3 only if last heard of before this time; '' = in any case
local beat_at = redis.call('HGET', 'node:meta:' .. ARGV[2], 'beat_at')
if not beat_at or (ARGV[3] ~= '' and tonumber(beat_at) >= tonumber(ARGV[3])) then return 0 end
return remove(ARGV[2])
