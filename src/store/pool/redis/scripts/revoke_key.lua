-- ARGV: 2 name
local key = redis.call('HGET', 'node:keys', ARGV[2])
if not key then return false end
redis.call('HDEL', 'node:keys', ARGV[2])
redis.call('SET', 'node:keys:version', bump())
local id = cjson.decode(key).node
local evicted = 0
if redis.call('HGET', 'node:meta:' .. id, 'key') == ARGV[2] then
  remove(id)
  evicted = 1
end
return {key, evicted}
