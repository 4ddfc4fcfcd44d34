-- Removes a document that is done.
--
-- KEYS   its stream
-- ARGV   worker, the entry's id
-- Reply  1, or 0 where it was removed before
redis.call('XACK', KEYS[1], 'workers', ARGV[2])
return redis.call('XDEL', KEYS[1], ARGV[2])
