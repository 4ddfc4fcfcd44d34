-- Ends the pending state of documents of one customer, and learns from them how long
-- the customer's documents take.
--
-- KEYS[1]  <prefix>:{<customer>}:pending, the sorted set that submit.lua explains
-- ARGV[1]  how long each of them was worked on, in thousandths of what the documents of
--          all customers take, 1 to 999999; 0: not known
-- ARGV[2]  how many milliseconds ago each of them was done, with spaces between the numbers;
--          empty: just now
-- ARGV     then the ids of 1 to 1000 documents
--
-- Reply    {latency, level, …}: for each document the milliseconds from its Submit until it
--          was done, and the level that it was given; 0 and 0 for one that was not pending,
--          for the second of two of the same id, and for one that was submitted again after
--          it was done, which stays pending. A document whose lease has ended counts as
--          pending here, within a day.
-- Errors   CORRUPTPENDING: the key holds something else. ERR the …: ARGV is wrong.
--          Redis's own (NOPERM, READONLY …). With any of them nothing was changed, except that
--          without a right to a command here those before it have run.
--
-- Try it   redis-cli --eval done.lua 'priority:{acme}:pending' , 0 '' invoice-1

local set, cost, late, n = KEYS[1], ARGV[1], ARGV[2], #ARGV - 2
local floor, min, max = math.floor, math.min, math.max
if not (cost and #cost <= 6 and (cost == '0' or string.find(cost, '^[1-9]%d*$'))) then
  return redis.error_reply('ERR the cost is not 0 to 999999')
elseif n < 1 or n > 1000 then
  return redis.error_reply('ERR the number of documents is not 1 to 1000')
end
cost = cost + 0
local members = {':averages'}
for i = 1, n do
  local id = ARGV[i + 2]
  if string.byte(id) == 58 then
    id = ':' .. id
  end
  members[i + 1] = id
end

local scores = redis.pcall('ZMSCORE', set, unpack(members))
if scores.err then
  if string.find(scores.err, 'wrong kind of value', 1, true) then
    return redis.error_reply('CORRUPTPENDING the key holds something other than pending documents')
  end
  return scores
end
-- A set without averages is not ours.
local averages = scores[1] and scores[1] + 0 or redis.call('ZCARD', set) > 0 and 1e13
if averages and averages < 0 then
  return redis.error_reply('CORRUPTPENDING a later version wrote the key')
elseif averages and (averages >= 1e13 or averages % 1 > 0 or averages % 1000000 == 0) then
  return redis.error_reply('CORRUPTPENDING the key holds something other than pending documents')
end
local time = redis.call('TIME')
local now = time[1] * 1000 + floor(time[2] / 1000)
local done, since = members, {}
if late ~= '' then
  local i = 1
  done = {'', ''} -- an id that no document has: ZREM needs one
  for ago in string.gmatch(late, '%d+') do
    i = i + 1
    since[i] = now - ago
    if not scores[i] or math.abs(scores[i]) < 256 * (since[i] + 1) then
      done[#done + 1] = members[i]
    else
      scores[i] = false
    end
  end
  if i ~= n + 1 or string.find(late, '[^%d ]') then
    return redis.error_reply('ERR the times are not a number for each document')
  end
end
-- Also if none is pending: a read-only replica, which may not know a document yet, must
-- answer READONLY and not 0.
redis.call('ZREM', set, unpack(done, 2))

-- Both averages move by a tenth of the way for each document of the last day. The latency,
-- in tenths of a second, moves no further than for three times as long as usual, and nine
-- seconds are usual: one that was late must not make others look pending for hours. What a
-- flood's documents wait does not count. The cost moves no further than for eight times the
-- usual one of the customer's, or of all: one wild number changes little.
local average = averages and averages % 1000000
local latency = averages and (averages - average) / 1000000
local reply, seen = {}, {}
for i = 1, n do
  local id, score = members[i + 1], scores[i + 1]
  local took, level = 0, 0
  if score and not seen[id] then
    seen[id] = true
    local at = math.abs(score)
    level = at % 256
    took = max((since[i + 1] or now) - (at - level) / 256, 0)
    if not (took <= 86400000) then -- an infinite score, set by hand, has no time
      took, level = 0, 0
    elseif score + 0 > 0 then
      local tenths = max(floor((took + 50) / 100), 1)
      if latency > 0 then
        tenths = floor((9 * latency + min(tenths, 3 * max(latency, 90)) + 5) / 10)
      end
      latency = tenths
    end
    if level > 0 and cost > 0 then
      average = max(floor((9 * average + min(cost, 8 * max(average, 1000)) + 5) / 10), 1)
    end
  end
  reply[2 * i - 1], reply[2 * i] = took, level
end
local learned = averages and latency * 1000000 + average
if learned ~= averages then
  redis.call('ZADD', set, string.format('%d', learned), ':averages')
end
return reply
