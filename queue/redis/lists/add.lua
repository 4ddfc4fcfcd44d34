-- Adds a document to the end of its level's list. Called again with the same token,
-- because the first call's reply was lost, it adds nothing.
--
-- KEYS    the level's list, the sorted set of the latest 10,000 tokens
-- ARGV    token, customer, document, body: all UTF-8; traceparent ("": none)
-- Reply   1, or 0 where the document was added before
-- Errors  OOM where Redis is full: nothing was added
if redis.call('ZSCORE', KEYS[2], ARGV[1]) then
	return 0
end
redis.call('RPUSH', KEYS[1], cjson.encode({customer = ARGV[2], document = ARGV[3], body = ARGV[4],
	traceparent = ARGV[5] ~= '' and ARGV[5] or nil}))
local latest = redis.call('ZRANGE', KEYS[2], -1, -1, 'WITHSCORES')
redis.call('ZADD', KEYS[2], (latest[2] or 0) + 1, ARGV[1])
redis.call('ZREMRANGEBYRANK', KEYS[2], 0, -10001)
return 1
