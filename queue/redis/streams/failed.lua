-- Puts a document that has failed aside: for a while, or for good, then with these
-- three fields only: customer, document, body.
--
-- KEYS    its stream, its level's sorted set of documents that wait after a failure,
--         the stream of those given up
-- ARGV    worker, the entry's id, how long it waits in milliseconds (-1: it is
--         given up), why it has failed
-- Reply   1, or 0 where another worker has it, it is done, or its stream is gone
-- Errors  OOM where Redis is full: nothing was changed
local held = redis.pcall('XPENDING', KEYS[1], 'workers', ARGV[2], ARGV[2], 1, ARGV[1])
if held.err or #held == 0 then
	return 0
end
local tries = held[1][4]
if tonumber(ARGV[3]) >= 0 then
	local time = redis.call('TIME')
	local due = time[1] * 1000 + math.floor(time[2] / 1000) + ARGV[3]
	redis.call('ZADD', KEYS[2], due, ARGV[2] .. ' ' .. tries)
	redis.call('XACK', KEYS[1], 'workers', ARGV[2])
	return 1
end
local entry = redis.call('XRANGE', KEYS[1], ARGV[2], ARGV[2])[1]
if entry then
	local field = {}
	for i = 1, #entry[2], 2 do
		field[entry[2][i]] = entry[2][i + 1]
	end
	redis.call('XADD', KEYS[3], '*', 'customer', field.customer or '', 'document', field.document or '',
		'body', field.body or '', 'queue', KEYS[1], 'tries', tries, 'why', ARGV[4])
end
redis.call('XACK', KEYS[1], 'workers', ARGV[2])
redis.call('XDEL', KEYS[1], ARGV[2])
return 1
