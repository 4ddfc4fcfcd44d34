-- Renews a document's lease.
--
-- KEYS    its list, its level's sorted set
-- ARGV    worker, its member in the sorted set, lease in milliseconds
-- Reply   1, or 0 where another worker has it, or it is done
-- Errors  OOM where Redis is full: nothing was changed
if not redis.call('ZSCORE', KEYS[2], ARGV[2]) then
	return 0
end
local time = redis.call('TIME')
redis.call('ZADD', KEYS[2], time[1] * 1000 + math.floor(time[2] / 1000) + ARGV[3], ARGV[2])
return 1
