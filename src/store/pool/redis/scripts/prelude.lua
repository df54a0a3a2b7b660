-- In front of every script. ARGV[1] is the time for tests alone; it is '' otherwise.
--
-- Keys (one database, not a cluster: a script touches several of them):
--   node:meta:ID      hash: reg, beat (JSON), key, session, seq, registered_at, beat_at, drain, draining, max,
--                     and the node's breaker: f(ailures), o(pen until), t(rial's lease)
--   node:perf:ID      hash: model -> "failures open_until ttft tokens_per_second trial's_lease", '-' for none
--   node:inflight:ID  sorted set: lease -> end of its validity
--   node:changed      sorted set: ID -> version of its last change, also of nodes that are gone
--   node:gone         sorted set: the same, of nodes that are gone alone
--   node:version      the last version; node:base: of changes up to this one not everything is remembered
--   node:keys         hash: name -> JSON; node:keys:version: version of its last change
--
-- A trial lasts as long as its lease, so only the lease is prolonged.
-- Numbers become text by `int` or `real` alone: Lua's own way keeps 14 digits.

local time = redis.call('TIME')
local now = tonumber(ARGV[1]) or time[1] * 1000 + math.floor(time[2] / 1000)

local function int(n) return string.format('%.0f', n) end
local function real(n) return string.format('%.17g', n) end

-- The next version. The first is the time in microseconds, so that a store that lost everything
-- never gives out a version again that it gave out before.
local function bump()
  if redis.call('EXISTS', 'node:version') == 0 then
    local first = time[1] .. string.format('%06d', time[2])
    redis.call('SET', 'node:version', first)
    redis.call('SET', 'node:base', first)
  end
  return int(redis.call('INCR', 'node:version'))
end

local function touch(id)
  redis.call('ZADD', 'node:changed', bump(), id)
end

local function remove(id)
  if redis.call('DEL', 'node:meta:' .. id) == 0 then return 0 end
  redis.call('DEL', 'node:perf:' .. id)
  local version = bump()
  redis.call('ZADD', 'node:changed', version, id)
  redis.call('ZADD', 'node:gone', version, id)
  if redis.call('ZCARD', 'node:gone') > 1000 then
    local old = redis.call('ZRANGE', 'node:gone', 0, 499, 'WITHSCORES')
    for i = 1, #old, 2 do
      redis.call('ZREM', 'node:changed', old[i])
      redis.call('SET', 'node:base', int(old[i + 1]))
    end
    redis.call('ZREMRANGEBYRANK', 'node:gone', 0, 499)
  end
  return 1
end

-- End of a lease's validity; 0 if it has none.
local function valid_until(id, lease)
  local score = redis.call('ZSCORE', 'node:inflight:' .. id, lease)
  local ends = score and tonumber(score) or 0
  return ends > now and ends or 0
end

-- Adds or prolongs a lease. The set's own time-out is relative, and never shorter than a lease's.
local function hold(id, lease, ttl)
  local key = 'node:inflight:' .. id
  redis.call('ZADD', key, int(now + ttl), lease)
  if redis.call('PTTL', key) < ttl then redis.call('PEXPIRE', key, int(ttl)) end
end

local function parse(perf)
  local f, o, ttft, tps, t = string.match(perf or '', '^(%S+) (%S+) (%S+) (%S+) (%S+)$')
  return {
    f = tonumber(f) or 0, o = tonumber(o), ttft = tonumber(ttft), tps = tonumber(tps),
    t = t ~= '-' and t or nil,
  }
end

-- A node: its id, its fields, its models' figures, its leases, and of each trial the end.
local function record(id)
  local meta = redis.call('HGETALL', 'node:meta:' .. id)
  if #meta == 0 then return false end
  local leases = redis.call('ZCOUNT', 'node:inflight:' .. id, '(' .. int(now), '+inf')
  local perf = redis.call('HGETALL', 'node:perf:' .. id)
  local trials = {}
  local function trial(lease)
    if lease and lease ~= '' and lease ~= '-' then
      trials[#trials + 1] = lease
      trials[#trials + 1] = int(valid_until(id, lease))
    end
  end
  for i = 1, #meta, 2 do
    if meta[i] == 't' then trial(meta[i + 1]) end
  end
  for i = 2, #perf, 2 do trial(string.match(perf[i], '(%S+)$')) end
  return { id, meta, perf, leases, trials }
end
