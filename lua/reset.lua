-- Forgets one customer's count, or whatever else the key holds.
--
-- KEYS[1]  <prefix>:{<customer>}:count
--
-- Reply    {deleted}: 1 if there was such a key, else 0.
-- Errors   Redis's own (READONLY …), raised before anything is changed.
--
-- Try it   redis-cli --eval reset.lua 'priority:{acme}:count'

return {redis.call('DEL', KEYS[1])}
