-- Returns all that is known of one customer now. Writes nothing.
--
-- KEYS[1]  <prefix>:{<customer>}:count, the string that next.lua writes
-- KEYS[2]  <prefix>:{<customer>}:pending, the sorted set that submit.lua writes
-- KEYS[3]  <prefix>:{<customer>}:usage, the string that submit.lua explains
-- KEYS[4]  <prefix>:{<customer>}:override, the string that next.lua explains. Without
--          this key, no override is read.
--
-- Reply    {rule, level, next_level, count, reset_in, load, lately, cost, pending,
--          beyond, oldest, sojourn, lease, ruled, earliest, latest, ends_in}
--          rule: 2 if something was submitted, else 1 if there is a count, else 0.
--          level: of the last document by the count; of the newest pending one by the
--          load, 0 if none is pending. next_level: of a document that arrives now.
--          count and reset_in, in milliseconds: 0 if there is no count; a count
--          without a TTL has a reset_in of 0.
--          The rest is 0 unless something was submitted. load: of a document that
--          arrives now, in millionths. lately and cost, in thousandths. pending: how
--          many documents are; beyond: those beyond the last load. oldest: for how
--          long the oldest pending one has been. sojourn: the average time from Submit
--          to Done, 0: not known. lease: how long a document counts as pending. These
--          three in milliseconds.
--          ruled: next_level without the override. earliest and latest: the bounds of
--          the override. ends_in: for how many milliseconds it holds, -1 if it has no
--          end. These four are 0 without an override.
-- Errors   CORRUPTCOUNT, CORRUPTPENDING, CORRUPTUSAGE: a key holds something else.
--          Redis's own (LOADING …).
--
-- Try it   redis-cli --eval peek.lua 'priority:{acme}:count' \
--            'priority:{acme}:pending' 'priority:{acme}:usage'

-- begin lease
local longest_lease = 86400000
-- end lease
-- begin turns
local last, turns = 9, 0
-- end turns
-- begin queue
local queue_levels = 9
-- end queue
local day = 86400000
local set, usage, override = KEYS[2], KEYS[3], KEYS[4]
local call, format, find = redis.call, string.format, string.find
local floor, min, max = math.floor, math.min, math.max

local held_count = redis.pcall('GET', KEYS[1])
if held_count and (held_count.err or not (held_count == '0' or #held_count <= 16 and
  find(held_count, '^-?[1-9]%d*$') and math.abs(tonumber(held_count)) < 1e15)) then
  if held_count.err and not find(held_count.err, 'wrong kind of value', 1, true) then
    return held_count
  end
  return redis.error_reply('CORRUPTCOUNT the key holds something other than a count')
end
local reset_in = held_count and max(call('PTTL', KEYS[1]), 0) or 0

-- begin history
local held, ruling
if override then
  local both = call('MGET', usage, override)
  held, ruling = both[1], both[2]
end
if not held then
  held = redis.pcall('GET', usage)
end
local lease, average, lately, sojourn = longest_lease, 1000, 0, 0
if held then
  if held.err or #held > 15 or not find(held, '^[1-9]%d*$') then
    if held.err and not find(held.err, 'wrong kind of value', 1, true) then
      return held
    end
    if not held.err and find(held, '^v%d') then
      return redis.error_reply('CORRUPTUSAGE a later version wrote the key')
    end
    return redis.error_reply('CORRUPTUSAGE the key holds something other than a usage')
  end
  average = held % 1000000
  sojourn = (held - average) / 10000
  if sojourn > 0 then
    lease = min(max(20 * sojourn, 180000), longest_lease)
  end
  local left = call('PTTL', usage)
  if left > 0 then
    lately = min(floor(1000 * 2 ^ (left / day - 1) + 0.5), 512000)
  end
end
local time = call('TIME')
local now = time[1] * 1000 + floor(time[2] / 1000)
local since, newest = 64 * (now - lease), 64 * now + 63
-- end history

-- begin override
-- The bounds of an operator's override: "=1", ">=7" or "<=3". Anything else is none.
local earliest, latest
if ruling and not ruling.err then
  local how, level = string.match(ruling, '^([<>]?=)([1-9]%d?%d?)$')
  if how then
    level = math.min(level + 0, queue_levels)
    earliest = how == '<=' and 1 or level
    latest = how == '>=' and queue_levels or level
  end
end
-- end override

-- Returns the reply: the numbers, and what the override makes of them.
local function told(reply)
  local ruled, ends_in = 0, 0
  if earliest then
    ruled, ends_in = reply[3], call('PTTL', override)
    reply[3] = min(max(ruled, earliest), latest)
  end
  reply[14], reply[15], reply[16], reply[17] = ruled, earliest or 0, latest or 0, ends_in
  return reply
end

local all = redis.pcall('ZCARD', set)
if type(all) == 'table' then
  if find(all.err, 'wrong kind of value', 1, true) then
    return redis.error_reply('CORRUPTPENDING the key holds something other than pending documents')
  end
  return all
end

local ordinary, beyond, only, from, to = 0, 0
if all == 1 then
  only = call('ZRANGE', set, '0', '0', 'WITHSCORES')[2] + 0
  if math.abs(only) > newest then
    only = 0
  elseif only >= since then
    ordinary = 1
  elseif only <= -since then
    beyond = 1
  end
elseif all > 0 then
  from, to = format('%d', since), format('%d', newest)
  ordinary = call('ZCOUNT', set, from, to)
  if ordinary < all then
    beyond = call('ZCOUNT', set, '-' .. to, '-' .. from)
  end
end

if not held and ordinary + beyond == 0 then -- by the count, if there is one
  local last_level, next_level
  for ahead = 0, 1 do
    local count = (held_count or 1) - ahead
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
  if held_count then
    return told({1, last_level, next_level, held_count + 0, reset_in, 0, 0, 0, 0, 0, 0, 0, 0})
  end
  return told({0, 0, next_level, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0})
end

-- The last document and the oldest, of those before the last load and beyond it.
local last_score, oldest = 0, 64 * now
if only and ordinary + beyond == 1 then
  last_score = math.abs(only)
  oldest = last_score
elseif ordinary > 0 then
  last_score = call('ZRANGE', set, to, from, 'BYSCORE', 'REV', 'LIMIT', '0', '1', 'WITHSCORES')[2] + 0
  oldest = last_score
  if ordinary > 1 then
    oldest = call('ZRANGE', set, from, to, 'BYSCORE', 'LIMIT', '0', '1', 'WITHSCORES')[2] + 0
  end
end
if not only and beyond > 0 then
  local lowest, highest = '-' .. to, '-' .. from
  last_score = max(last_score, -call('ZRANGE', set, lowest, highest, 'BYSCORE', 'LIMIT', '0', '1', 'WITHSCORES')[2])
  oldest = min(oldest, -call('ZRANGE', set, highest, lowest, 'BYSCORE', 'REV', 'LIMIT', '0', '1', 'WITHSCORES')[2])
end

local load = min(min(lately + 1000, 512000) * (ordinary + 1) * average, 1e15)
-- begin loads
local level = 1
if load > 32768000000 then level = 9
elseif load <= 2000000 then level = 1
elseif load <= 8000000 then level = 2
elseif load <= 32000000 then level = 3
elseif load <= 128000000 then level = 4
elseif load <= 512000000 then level = 5
elseif load <= 2048000000 then level = 6
elseif load <= 8192000000 then level = 7
elseif load <= 32768000000 then level = 8
end
-- end loads
if level == last and turns > 0 then
  local _, doublings = math.frexp(beyond + 1)
  level = level + min(doublings - 1, turns)
end
return told({2, last_score % 64, level, (held_count or 0) + 0, reset_in, load, lately, average, ordinary + beyond, beyond,
  ordinary + beyond > 0 and now - floor(oldest / 64) or 0, sojourn, lease})
