-- The floor: the least that a decision with an expiry can do.
--
-- KEYS[1]  the count
-- Reply    {count}

local count = redis.call('INCR', KEYS[1])
redis.call('PEXPIRE', KEYS[1], 1500000)
return {count}
