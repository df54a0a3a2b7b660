-- ARGV: 2 node, 3 lease, 4 model or '', 5 and 6 what it means to the node and to the model ('s'uccess, 'f'ailure,
-- 'n'either), 7 failures that open a breaker, 8 cool-down, 9 and 10 ttft and tokens a second or '-', 11 alpha
local id, lease, model = ARGV[2], ARGV[3], ARGV[4]
local key = 'node:meta:' .. id
redis.call('ZREM', 'node:inflight:' .. id, lease)
local m = redis.call('HMGET', key, 'beat_at', 'f', 'o', 't')
if not m[1] then return 0 end

-- rules::pool::breaker, settle.
local function settle(b, means)
  if b.o then
    if b.t ~= lease then return end
    b.t = nil
  end
  if means == 's' then
    b.f, b.o, b.t = 0, nil, nil
  elseif means == 'f' then
    b.f = b.f + 1
    if b.f >= tonumber(ARGV[7]) then b.o = now + tonumber(ARGV[8]) end
  end
end

local function text(b) return (b.o and int(b.o) or '-') .. ' ' .. (b.t or '-') end

local b = { f = tonumber(m[2] or '') or 0, o = tonumber(m[3] or ''), t = m[4] or nil }
local before = b.f .. text(b)
settle(b, ARGV[5])
if b.f .. text(b) ~= before then
  redis.call('HDEL', key, 'f', 'o', 't')
  if b.f > 0 then redis.call('HSET', key, 'f', int(b.f)) end
  if b.o then redis.call('HSET', key, 'o', int(b.o)) end
  if b.t then redis.call('HSET', key, 't', b.t) end
end

-- rules::pool::ema, add.
local function add(mean, sample)
  sample = tonumber(sample)
  if not sample then return mean end
  return mean and mean + tonumber(ARGV[11]) * (sample - mean) or sample
end

if model ~= '' then
  local perf = 'node:perf:' .. id
  local packed = redis.call('HGET', perf, model)
  if packed or redis.call('HLEN', perf) < 1000 then
    local p = parse(packed)
    settle(p, ARGV[6])
    p.ttft, p.tps = add(p.ttft, ARGV[9]), add(p.tps, ARGV[10])
    local figures = (p.ttft and real(p.ttft) or '-') .. ' ' .. (p.tps and real(p.tps) or '-')
    local after = int(p.f) .. ' ' .. (p.o and int(p.o) or '-') .. ' ' .. figures .. ' ' .. (p.t or '-')
    if after == '0 - - - -' then
      redis.call('HDEL', perf, model)
    elseif after ~= packed then
      redis.call('HSET', perf, model, after)
    end
  end
end
touch(id)
return 1
