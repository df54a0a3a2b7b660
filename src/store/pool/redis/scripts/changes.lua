-- ARGV: 2 version, 3 at most so many nodes
-- One page of what changed after a version, oldest first.
local since = tonumber(ARGV[2])
local version = redis.call('GET', 'node:version') or '0'
local base = redis.call('GET', 'node:base') or '0'
local keys = redis.call('GET', 'node:keys:version') or '0'
local ids = redis.call('ZRANGEBYSCORE', 'node:changed', '(' .. int(since), '+inf', 'WITHSCORES', 'LIMIT', 0, ARGV[3])
local records, gone, last = {}, {}, '0'
for i = 1, #ids, 2 do
  local found = record(ids[i])
  if found then records[#records + 1] = found else gone[#gone + 1] = ids[i] end
  last = int(ids[i + 1])
end
return { int(now), version, base, keys, last, records, gone, #ids / 2 }
