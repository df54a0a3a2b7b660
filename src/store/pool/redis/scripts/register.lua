-- ARGV: 2 node, 3 registration, 4 key's name, 5 session, 6 max_concurrency, 7... its models
local id = ARGV[2]
local key, perf = 'node:meta:' .. id, 'node:perf:' .. id
redis.call('HDEL', key, 'beat', 'draining')
redis.call('HSET', key, 'reg', ARGV[3], 'key', ARGV[4], 'session', ARGV[5], 'max', ARGV[6], 'seq', '0',
  'registered_at', int(now), 'beat_at', int(now))
local known = redis.call('HKEYS', perf)
if #known > 0 then
  local kept = {}
  for i = 7, #ARGV do kept[ARGV[i]] = true end
  for _, model in ipairs(known) do
    if not kept[model] then redis.call('HDEL', perf, model) end
  end
end
redis.call('ZREM', 'node:gone', id)
touch(id)
return { int(now), record(id) }
