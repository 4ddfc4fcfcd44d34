-- Renews a document's lease.
--
-- KEYS   its stream
-- ARGV   worker, the entry's id
-- Reply  1, or 0 where another worker has it, it is done, or its stream is gone
local held = redis.pcall('XPENDING', KEYS[1], 'workers', ARGV[2], ARGV[2], 1, ARGV[1])
if held.err or #held == 0 then
	return 0
end
redis.call('XCLAIM', KEYS[1], 'workers', ARGV[1], 0, ARGV[2], 'JUSTID')
return 1
