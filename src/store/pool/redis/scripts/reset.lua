-- ARGV: 2 node
local id = ARGV[2]
if redis.call('EXISTS', 'node:meta:' .. id) == 0 then return 0 end
redis.call('HDEL', 'node:meta:' .. id, 'f', 'o', 't')
local perf = redis.call('HGETALL', 'node:perf:' .. id)
for i = 1, #perf, 2 do
  local ttft, tps = string.match(perf[i + 1], '^%S+ %S+ (%S+) (%S+)')
  if ttft == '-' and tps == '-' then
    redis.call('HDEL', 'node:perf:' .. id, perf[i])
  else
    redis.call('HSET', 'node:perf:' .. id, perf[i], '0 - ' .. ttft .. ' ' .. tps .. ' -')
  end
end
touch(id)
return 1
