-- ARGV: 2 node, 3 session
local id = ARGV[2]
local m = redis.call('HMGET', 'node:meta:' .. id, 'session', 'drain')
if not m[1] or m[1] == '' then return 'unknown' end
if m[1] ~= ARGV[3] then return 'replaced' end
if m[2] == '1' then
  redis.call('HSET', 'node:meta:' .. id, 'session', '')
  touch(id)
else
  remove(id)
end
return 'left'
