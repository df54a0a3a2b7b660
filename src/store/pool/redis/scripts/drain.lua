-- ARGV: 2 node, 3 '1' or '0'
local key = 'node:meta:' .. ARGV[2]
if redis.call('EXISTS', key) == 0 then return 0 end
redis.call('HSET', key, 'drain', ARGV[3])
touch(ARGV[2])
return 1
