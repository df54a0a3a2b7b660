-- ARGV: 2 node, 3 lease, 4 ttl
if valid_until(ARGV[2], ARGV[3]) == 0 then return 0 end
hold(ARGV[2], ARGV[3], tonumber(ARGV[4]))
return 1
