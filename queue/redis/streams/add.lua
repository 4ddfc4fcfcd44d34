-- Adds a document to its level's stream. Called again with the same token, because
-- the first call's reply was lost, it adds nothing.
--
-- KEYS    the level's stream, the sorted set of the latest 10,000 tokens
-- ARGV    token, customer, document, body, traceparent ("": none)
-- Reply   1, or 0 where the document was added before
-- Errors  OOM where Redis is full: nothing was added
if redis.call('ZSCORE', KEYS[2], ARGV[1]) then
	return 0
end
local fields = {'customer', ARGV[2], 'document', ARGV[3], 'body', ARGV[4]}
if ARGV[5] ~= '' then
	fields[7], fields[8] = 'traceparent', ARGV[5]
end
redis.call('XADD', KEYS[1], '*', unpack(fields))
local latest = redis.call('ZRANGE', KEYS[2], -1, -1, 'WITHSCORES')
redis.call('ZADD', KEYS[2], (latest[2] or 0) + 1, ARGV[1])
redis.call('ZREMRANGEBYRANK', KEYS[2], 0, -10001)
return 1
