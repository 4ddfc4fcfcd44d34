-- Forgets one customer's count and pending documents, or whatever else the keys hold.
--
-- KEYS     <prefix>:{<customer>}:count, and the same with :pending
--
-- Reply    {deleted}: how many of the keys there were.
-- Errors   Redis's own (NOPERM, READONLY …), raised before anything is changed.
--
-- Try it   redis-cli --eval reset.lua 'priority:{acme}:count' 'priority:{acme}:pending'

return {redis.call('UNLINK', unpack(KEYS))}
