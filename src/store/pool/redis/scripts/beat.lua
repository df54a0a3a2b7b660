-- ARGV: 2 node, 3 session, 4 seq, 5 beat, 6 draining
local id = ARGV[2]
local key = 'node:meta:' .. id
local m = redis.call('HMGET', key, 'session', 'seq')
if not m[1] or m[1] == '' then return 'unknown' end
if m[1] ~= ARGV[3] then return 'replaced' end
if tonumber(ARGV[4]) <= tonumber(m[2]) then return 'stale' end
redis.call('HSET', key, 'beat', ARGV[5], 'seq', ARGV[4], 'draining', ARGV[6], 'beat_at', int(now))
touch(id)
return { int(now), record(id) }
