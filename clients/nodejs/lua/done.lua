-- Ends the pending state of documents of one customer, and learns from them how long
-- the customer's documents take.
--
-- KEYS[1]  <prefix>:{<customer>}:pending, the sorted set that submit.lua writes
-- KEYS[2]  <prefix>:{<customer>}:usage, the string that submit.lua explains
-- ARGV[1]  how long they were worked on, in thousandths of what the documents of all
--          customers take, 1 to 999999; 0: not known
-- ARGV     then the ids of 1 to 1000 documents
--
-- Reply    {done}: how many of them were pending, or had been until their leases
--          ended, within a day.
-- Errors   CORRUPTPENDING, CORRUPTUSAGE: a key holds something else. ERR: ARGV[1] is
--          no such number. Redis's own (READONLY …). With any of them nothing was
--          changed.
--
-- Try it   redis-cli --eval done.lua 'priority:{acme}:pending' \
--            'priority:{acme}:usage' , 0 invoice-1

local cost = ARGV[1] and #ARGV[1] <= 6 and string.find(ARGV[1], '^%d+$') and tonumber(ARGV[1])
if not cost then
  return redis.error_reply('ERR the cost is not 0 to 999999')
end
local documents = {unpack(ARGV, 2)}
local scores = redis.pcall('ZMSCORE', KEYS[1], unpack(documents))
if scores.err then
  if string.find(scores.err, 'wrong kind of value', 1, true) then
    return redis.error_reply('CORRUPTPENDING the key holds something other than pending documents')
  end
  return scores
end
local held = redis.pcall('GET', KEYS[2])
if held and (held.err or #held > 15 or not string.find(held, '^[1-9]%d*$')) then
  if held.err and not string.find(held.err, 'wrong kind of value', 1, true) then
    return held
  end
  return redis.error_reply('CORRUPTUSAGE the key holds something other than a usage')
end

-- Both averages move by a tenth of the way for each document, unless it is older
-- than a day and only not cleared yet. The sojourn moves no further than for three
-- times as long as usual: one that was late must not make others look pending for
-- hours.
local sojourn, average_cost = 0, 1000
if held then
  sojourn, average_cost = math.floor(held / 1000000), held % 1000000
end
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local done, seen = 0, {}
for i, document in ipairs(documents) do
  local submitted = scores[i] and not seen[document] and tonumber(scores[i])
  seen[document] = true
  if submitted and now - math.abs(submitted) <= 86400000 then
    done = done + 1
    if submitted > 0 then
      local tenths = math.max(math.floor((now - submitted + 50) / 100), 1)
      if sojourn > 0 then
        tenths = math.floor((9 * sojourn + math.min(tenths, 3 * math.max(sojourn, 90)) + 5) / 10)
      end
      sojourn = tenths
    end
    if cost > 0 then
      average_cost = math.max(math.floor((9 * average_cost + cost + 5) / 10), 1)
    end
  end
end
if redis.call('ZREM', KEYS[1], unpack(documents)) > 0 and done > 0 and held then
  redis.call('SET', KEYS[2], string.format('%.0f', sojourn * 1000000 + average_cost), 'KEEPTTL')
end
return {done}
