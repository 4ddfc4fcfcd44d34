-- Tells a worker, each half second, whether operators have changed something.
-- Writes nothing.
--
-- KEYS[1]  <prefix>:{control}:document, the hash that change.lua writes
--
-- Reply    {format, version, token, now}: the format of the document, which is 1; its
--          version; the token of its last change, which tells two changes of one
--          version apart after a failover has lost the first; and the milliseconds of
--          Redis's time. Without a document the first three are 0.
-- Errors   CORRUPTDOCUMENT: the key holds something else.
--
-- Try it   redis-cli --eval version.lua 'priority:{control}:document'

local corrupt = 'CORRUPTDOCUMENT the key holds something other than the operators\' document'
local held = redis.pcall('HMGET', KEYS[1], 'format', 'version', 'token')
if held.err then
  if string.find(held.err, 'wrong kind of value', 1, true) then
    return redis.error_reply(corrupt)
  end
  return held
end
local reply = {0, 0, 0}
if held[1] or held[2] or held[3] then
  for i = 1, 3 do
    if not held[i] or #held[i] > 15 or not string.find(held[i], '^%d+$') then
      return redis.error_reply(corrupt)
    end
    reply[i] = tonumber(held[i])
  end
end
local time = redis.call('TIME')
reply[4] = time[1] * 1000 + math.floor(time[2] / 1000)
return reply
