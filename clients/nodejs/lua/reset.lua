-- Forgets one customer's count, pending documents and usage, or whatever else the
-- keys hold.
--
-- KEYS     <prefix>:{<customer>}:count, the same with :pending and with :usage
--
-- Reply    {deleted}: how many of the keys there were.
-- Errors   Redis's own (READONLY …), raised before anything is changed.
--
-- Try it   redis-cli --eval reset.lua 'priority:{acme}:count' \
--            'priority:{acme}:pending' 'priority:{acme}:usage'

return {redis.call('UNLINK', unpack(KEYS))}
