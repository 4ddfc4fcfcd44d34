-- Forgets one customer's counts, or whatever else the keys hold.
--
-- KEYS     <prefix>:{<customer>}:count, and for a tracker :pending too
--
-- Reply    {deleted}: how many of the keys there were.
-- Errors   Redis's own (READONLY …), raised before anything is changed.
--
-- Try it   redis-cli --eval reset.lua 'priority:{acme}:count'

return {redis.call('UNLINK', unpack(KEYS))}
