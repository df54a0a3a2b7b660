-- ARGV: 2 name, 3 key
if redis.call('HSETNX', 'node:keys', ARGV[2], ARGV[3]) == 0 then return 0 end
redis.call('SET', 'node:keys:version', bump())
return 1
