-- Removes a document that is done.
--
-- KEYS   its list, its level's sorted set, the stream of those given up, the hash of
--        what each worker has in hand
-- ARGV   worker, its member in the sorted set
-- Reply  1, or 0 where another worker has it, or it was removed before
redis.call('HDEL', KEYS[4], ARGV[1])
return redis.call('ZREM', KEYS[2], ARGV[2])
