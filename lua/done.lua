-- Ends the pending state of documents of one customer, and learns from them how long
-- the customer's documents take.
--
-- KEYS[1]  <prefix>:{<customer>}:pending, the sorted set that submit.lua explains
-- KEYS[2]  <prefix>:{<customer>}:usage, the string that submit.lua explains
-- ARGV[1]  how long they were worked on, in thousandths of what the documents of all
--          customers take, 1 to 999999; 0: not known
-- ARGV     then the ids of 1 to 1000 documents
--
-- Reply    {sojourn, level, …}: for each document the milliseconds since its Submit
--          and the level that it was given; 0 and 0 for one that was not pending. A
--          document whose lease has ended counts as pending here, within a day.
-- Errors   CORRUPTPENDING, CORRUPTUSAGE: a key holds something else. ERR: ARGV[1] is
--          no such number. Redis's own (READONLY …). With any of them nothing was
--          changed, except that without a right to a command here those before it have
--          run.
--
-- Try it   redis-cli --eval done.lua 'priority:{acme}:pending' \
--            'priority:{acme}:usage' , 0 invoice-1

local set, usage = KEYS[1], KEYS[2]
local call, find = redis.call, string.find
local floor, min, max = math.floor, math.min, math.max
local cost = ARGV[1]
if cost ~= '0' and not (cost and #cost <= 6 and find(cost, '^%d+$')) then
  return redis.error_reply('ERR the cost is not 0 to 999999')
end
cost = cost + 0
local n = #ARGV - 1
local scores
if n == 1 then
  scores = redis.pcall('ZSCORE', set, ARGV[2])
else
  scores = redis.pcall('ZMSCORE', set, unpack(ARGV, 2))
end
if type(scores) == 'table' and scores.err then
  if find(scores.err, 'wrong kind of value', 1, true) then
    return redis.error_reply('CORRUPTPENDING the key holds something other than pending documents')
  end
  return scores
end
local held = redis.pcall('GET', usage)
if held and (held.err or #held > 15 or not find(held, '^[1-9]%d*$')) then
  if held.err and not find(held.err, 'wrong kind of value', 1, true) then
    return held
  end
  if not held.err and find(held, '^v%d') then
    return redis.error_reply('CORRUPTUSAGE a later version wrote the key')
  end
  return redis.error_reply('CORRUPTUSAGE the key holds something other than a usage')
end
if not scores then
  call('ZREM', set, ARGV[2]) -- a replica, which may not know the document yet, refuses it
  return {0, 0}
end

-- Both averages move by a tenth of the way for each document, unless it is older
-- than a day and only not cleared yet. The sojourn, in tenths of a second, moves no
-- further than for three times as long as usual: one that was late must not make
-- others look pending for hours.
local sojourn, average = 0, 1000
if held then
  average = held % 1000000
  sojourn = (held - average) / 1000000
end
local time = call('TIME')
local now = time[1] * 1000 + floor(time[2] / 1000)
local reply, seen = {}, n > 1 and {}
for i = 1, n do
  local score = scores
  if seen then
    local document = ARGV[i + 1]
    score = nil
    if not seen[document] then
      score, seen[document] = scores[i], true
    end
  end
  local took, level = 0, 0
  if score then
    local at = math.abs(score)
    level = at % 64
    took = max(now - (at - level) / 64, 0)
    if not (took <= 86400000) then -- an infinite score, set by hand, has no time
      took, level = 0, 0
    elseif score + 0 > 0 then
      local tenths = max(floor((took + 50) / 100), 1)
      if sojourn > 0 then
        tenths = floor((9 * sojourn + min(tenths, 3 * max(sojourn, 90)) + 5) / 10)
      end
      sojourn = tenths
    end
    if level > 0 and cost > 0 then
      average = max(floor((9 * average + cost + 5) / 10), 1)
    end
  end
  reply[2 * i - 1], reply[2 * i] = took, level
end
if n == 1 then
  call('ZREM', set, ARGV[2])
else
  call('ZREM', set, unpack(ARGV, 2))
end
if held then
  local more = sojourn * 1000000 + average - held
  if more ~= 0 then
    call('INCRBY', usage, string.format('%d', more))
  end
end
return reply
