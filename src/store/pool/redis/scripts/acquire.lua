-- ARGV: 2 node, 3 model or '', 4 lease, 5 at most so many, 6 the lease's ttl, 7 the node's ttl
local id, model, lease, ttl = ARGV[2], ARGV[3], ARGV[4], tonumber(ARGV[6])
local key, leases = 'node:meta:' .. id, 'node:inflight:' .. id
local m = redis.call('HMGET', key, 'session', 'beat_at', 'max', 'drain', 'draining', 'o', 't')
if not m[2] then return { 'gone' } end
if m[1] == '' or now - tonumber(m[2]) > tonumber(ARGV[7]) then return { 'offline' } end
local packed = model ~= '' and redis.call('HGET', 'node:perf:' .. id, model) or nil
local perf = packed and parse(packed) or nil

redis.call('ZREMRANGEBYSCORE', leases, '-inf', int(now))
local count = redis.call('ZCARD', leases)
if valid_until(id, lease) > 0 then
  hold(id, lease, ttl)
  local trial = m[7] == lease or (perf and perf.t == lease)
  return { 'granted', trial and 1 or 0, count }
end
if m[4] == '1' or m[5] == '1' then return { 'draining' } end

-- 0: pass; the present or earlier: try; later: refuse until then.
local function gate(open_until, trial)
  if not open_until then return 0 end
  local trial_until = trial and trial ~= '' and valid_until(id, trial) or 0
  return math.max(open_until, trial_until)
end
local of_node = gate(tonumber(m[6] or ''), m[7])
local of_model = perf and gate(perf.o, perf.t) or 0
local both = math.max(of_node, of_model)
if both > now then return { 'broken', int(both) } end
if count >= math.min(tonumber(ARGV[5]), tonumber(m[3])) then return { 'full' } end

hold(id, lease, ttl)
if of_node > 0 then redis.call('HSET', key, 't', lease) end
if of_model > 0 then
  redis.call('HSET', 'node:perf:' .. id, model, (string.gsub(packed, '%S+$', function() return lease end)))
end
touch(id)
return { 'granted', both > 0 and 1 or 0, count + 1 }
