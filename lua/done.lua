-- Ends the pending state of documents of one customer.
--
-- KEYS[1]  <prefix>:{<customer>}:pending, the sorted set that submit.lua writes
-- ARGV     the ids of 1 to 1000 documents
--
-- Reply    {removed}: how many of them were pending, or their leases had ended and
--          they were not cleared yet.
-- Errors   CORRUPTPENDING: the key holds something else. Redis's own (READONLY …).
--          With any of them nothing was changed.
--
-- Try it   redis-cli --eval done.lua 'priority:{acme}:pending' , invoice-1

local removed = redis.pcall('ZREM', KEYS[1], unpack(ARGV))
if type(removed) == 'table' then
  if string.find(removed.err, 'wrong kind of value', 1, true) then
    return redis.error_reply('CORRUPTPENDING the key holds something other than pending documents')
  end
  return removed
end
return {removed}
