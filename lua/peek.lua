-- Returns all that is known of one customer now. Writes nothing.
--
-- KEYS[1]  <prefix>:{<customer>}:count, the string that next.lua writes
-- KEYS[2]  <prefix>:{<customer>}:pending, the sorted set that submit.lua explains
-- KEYS[3]  <prefix>:{<customer>}:override, the string that next.lua explains. Without
--          this key, no override is read.
--
-- Reply    {rule, level, next_level, count, reset_in, load, recent, cost, pending,
--          beyond, oldest, latency, lease, rule_level, earliest, latest, ends_in}
--          rule: 2 if documents are pending or recent ones have not faded, else 1 if
--          there is a count, else 0. level: of the last document by the count, without
--          an override; as the newest pending document was given it by the load, 0 if
--          none is pending. next_level: of a document that arrives now.
--          count and reset_in, in milliseconds: 0 if there is no count; a count
--          without a TTL has a reset_in of 0.
--          The next eight are 0 unless rule is 2. load: of a document
--          that arrives now, in millionths. recent and cost, in thousandths. pending:
--          how many documents are; beyond: those beyond the last load. oldest: for how
--          long the oldest pending one has been. latency: the average time from Submit
--          to Done, 0: not known. lease: how long a document counts as pending. oldest,
--          latency and lease are in milliseconds.
--          rule_level: next_level without the override. earliest and latest: the
--          bounds of the override. ends_in: for how many milliseconds it holds, -1 if
--          it has no end. These three are 0 without an override.
-- Errors   CORRUPTCOUNT, CORRUPTPENDING: a key holds something else. Redis's own
--          (NOPERM, LOADING …).
--
-- Try it   redis-cli --eval peek.lua 'priority:{acme}:count' 'priority:{acme}:pending'
--
-- The lines between "begin" and "end" are written by the module: lease, queue, levels and
-- loads are those of the default policy, the others are common to several scripts.

-- begin lease
local longest_lease = 86400000
-- end lease
-- begin queue
local queue_levels = 9
-- end queue
local day = 86400000
local set, override = KEYS[2], KEYS[3]
local call, format = redis.call, string.format
local floor, min, max = math.floor, math.min, math.max
local members = {':fades', ':averages'}

local count = redis.pcall('GET', KEYS[1])
if count and (count.err or not (count == '0' or #count <= 16 and
  string.find(count, '^-?[1-9]%d*$') and math.abs(count) < 1e15)) then
  if count.err and not string.find(count.err, 'wrong kind of value', 1, true) then
    return count
  end
  return redis.error_reply('CORRUPTCOUNT the key holds something other than a count')
end
local reset_in = count and max(call('PTTL', KEYS[1]), 0) or 0

-- begin pending
-- What the set holds: two scores of our own, those of the documents in members, and how
-- many documents are pending, before the last load and beyond it. Our own lie below 1e13,
-- which is less than 256 times the time.
local scores = redis.pcall('ZMSCORE', set, unpack(members))
if scores.err then
  if string.find(scores.err, 'wrong kind of value', 1, true) then
    return redis.error_reply('CORRUPTPENDING the key holds something other than pending documents')
  end
  return scores
end
local time = call('TIME')
local now = time[1] * 1000 + floor(time[2] / 1000)
local fades, averages, all = scores[1], scores[2], call('ZCARD', set)
local recent, average, latency, lease = 0, 1000, 0, longest_lease
if all > 0 then
  fades, averages, all = (fades or 1e13) + 0, (averages or 1e13) + 0, all - 2
  if fades < 0 or averages < 0 then
    return redis.error_reply('CORRUPTPENDING a later version wrote the key')
  elseif fades >= 1e13 or averages >= 1e13 or averages % 1 > 0 or averages % 1000000 == 0 then
    return redis.error_reply('CORRUPTPENDING the key holds something other than pending documents')
  end
  if now <= fades then
    average = averages % 1000000
    latency = (averages - average) / 10000 -- in milliseconds
    if latency > 0 then
      lease = min(max(20 * latency, 180000), longest_lease)
    end
    if now < fades then
      recent = min(floor(1000 * 2 ^ ((fades - now) / day - 1) + 0.5), 512000)
    end
  end
end
local since, ordinary, beyond = 256 * (now - lease), 0, 0
if all > 0 then
  local from = format('%d', since)
  ordinary = call('ZCOUNT', set, from, '+inf')
  if ordinary < all then
    beyond = call('ZCOUNT', set, '-inf', '-' .. from)
  end
end
-- end pending

-- begin override
-- The bounds of an operator's override, if one is in force. A key of another kind is none;
-- a right to read it that is missing is an error.
local earliest, latest
local ruling = override and redis.pcall('GET', override)
if ruling and ruling.err then
  if not string.find(ruling.err, 'wrong kind of value', 1, true) then
    return ruling
  end
elseif ruling then
  local how, level, rest = string.match(ruling, '^([<>]?=)([1-9]%d?%d?)(.?)')
  if how and (rest == '' or rest == ' ') then
    level = math.min(level + 0, queue_levels)
    earliest = how == '<=' and 1 or level
    latest = how == '>=' and queue_levels or level
  end
end
-- end override

local reply
if ordinary + beyond > 0 or fades and now <= fades then -- by the load
  -- The newest document and the oldest. In the set, a flood's documents come first, the
  -- newest of them at 0, and the others last, the newest of them at -1.
  local newest, oldest = 0, 256 * now
  if ordinary > 0 then
    newest = call('ZRANGE', set, '-1', '-1', 'WITHSCORES')[2] + 0
    oldest = newest
    if ordinary > 1 then
      oldest = call('ZRANGE', set, format('%d', since), '+inf', 'BYSCORE', 'LIMIT', '0', '1', 'WITHSCORES')[2] + 0
    end
  end
  if beyond > 0 then
    newest = max(newest, -call('ZRANGE', set, '0', '0', 'WITHSCORES')[2])
    oldest = min(oldest, -call('ZRANGE', set, format('-%d', since), '-inf', 'BYSCORE', 'REV', 'LIMIT', '0', '1', 'WITHSCORES')[2])
  end
  local load = min(min(recent + 1000, 512000) * (ordinary + 1) * average, 1e15)
-- begin loads
local level = 1
if load > 32768000000 then level = 6
elseif load <= 8000000 then level = 1
elseif load <= 64000000 then level = 2
elseif load <= 512000000 then level = 3
elseif load <= 8192000000 then level = 4
elseif load <= 32768000000 then level = 5
end
local flood = level == 6 -- beyond the last load: take turns
if not flood then -- its level stands
elseif beyond + 1 >= 4096 then level = 9
elseif beyond + 1 >= 256 then level = 8
elseif beyond + 1 >= 16 then level = 7
end
-- end loads
  reply = {2, newest % 256, level, (count or 0) + 0, reset_in, load, recent, average, ordinary + beyond, beyond,
    max(now - floor(oldest / 256), 0), latency, lease}
else -- by the count, if there is one
  local last_level, next_level
  for ahead = 0, 1 do -- the last document, and then the next one
    local count = (count or 1) - ahead
-- begin levels
local level = 1
if count < -20 then level = 9
elseif count >= -2 then level = 1
elseif count >= -4 then level = 2
elseif count >= -6 then level = 3
elseif count >= -8 then level = 4
elseif count >= -10 then level = 5
elseif count >= -12 then level = 6
elseif count >= -14 then level = 7
elseif count >= -20 then level = 8
end
-- end levels
    last_level, next_level = next_level, level
  end
  if count then
    reply = {1, last_level, next_level, count + 0, reset_in, 0, 0, 0, 0, 0, 0, 0, 0}
  else
    reply = {0, 0, next_level, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}
  end
end
reply[14], reply[15], reply[16], reply[17] = reply[3], 0, 0, 0
if earliest then
  reply[3] = min(max(reply[3], earliest), latest)
  reply[15], reply[16], reply[17] = earliest, latest, call('PTTL', override)
end
return reply
