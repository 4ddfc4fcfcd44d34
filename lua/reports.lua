-- Returns reports of processes of the fleet. As a script it runs on the master, wherever the
-- client sends commands that read.
--
-- KEYS     <prefix>:{fleet}:<id>, the strings that report.lua explains; at most 100
--
-- Reply    the reports, then for each the milliseconds until it expires. Where there is none,
--          these are nil and -2.
-- Errors   Redis's own (NOPERM, LOADING …)
--
-- Try it   redis-cli --eval reports.lua 'priority:{fleet}:w1' 'priority:{fleet}:w2'

local found = redis.call('MGET', unpack(KEYS))
for i, key in ipairs(KEYS) do
  found[#KEYS + i] = redis.call('PTTL', key)
end
return found
