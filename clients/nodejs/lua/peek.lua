-- Returns what holds for one customer now. Writes nothing.
--
-- KEYS[1]  <prefix>:{<customer>}:count, a string: the count in decimal
-- KEYS[2]  <prefix>:{<customer>}:pending, the sorted set that submit.lua writes
-- KEYS[3]  <prefix>:{<customer>}:usage, the string that submit.lua explains
--
-- Reply    {level, count, pending, reset_in, usage, ordinary, cost, lease, sojourn,
--          usage_left, count_left}: the level of the count where nothing is pending,
--          else the level that the customer's last document has. Where there is no
--          count it is 0 and so is reset_in, which is 0 too for a key without a TTL.
--          Then what makes the level of a document: what was submitted lately, in
--          hundredths of a document; what is pending without the documents at the
--          last level; what one costs, in thousandths of what those of all customers
--          do; and the milliseconds after which a document does not count as pending
--          any more. Then the average time from Submit to Done in tenths of a second,
--          0 where it is not known; and the milliseconds left of the usage and of the
--          count, -2 where there is none, and -1 of a count without a TTL.
-- Errors   CORRUPTCOUNT, CORRUPTPENDING, CORRUPTUSAGE: a key holds something else.
--          Redis's own (LOADING …).
--
-- Try it   redis-cli --eval peek.lua 'priority:{acme}:count' \
--            'priority:{acme}:pending' 'priority:{acme}:usage'

-- begin lease
local longest_lease = 86400000
-- end lease
-- begin scale
local first = 2
local levels = 9
-- end scale
local day = 86400000

local function ruled(count)
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
return level
end

local function failed(reply, code)
  if string.find(reply.err, 'wrong kind of value', 1, true) then
    return redis.error_reply(code)
  end
  return reply
end

local corrupt = 'CORRUPTCOUNT the key holds something other than a count'
local value = redis.pcall('GET', KEYS[1])
if value and value.err then
  return failed(value, corrupt)
end
if value and not (value == '0' or
  #value <= 16 and string.find(value, '^-?[1-9]%d*$') and math.abs(tonumber(value)) < 1e15) then
  return redis.error_reply(corrupt)
end
local count = value and tonumber(value) or 0
local count_left = value and redis.call('PTTL', KEYS[1]) or -2

-- begin history
local held = redis.pcall('GET', KEYS[3])
if held and (held.err or #held > 15 or not string.find(held, '^[1-9]%d*$')) then
  if held.err and not string.find(held.err, 'wrong kind of value', 1, true) then
    return held
  end
  return redis.error_reply('CORRUPTUSAGE the key holds something other than a usage')
end
local lease, cost, usage = longest_lease, 1000, 0
if held then
  local sojourn = math.floor(held / 1000000)
  if sojourn > 0 then
    lease = math.min(math.max(20 * 100 * sojourn, 180000), longest_lease)
  end
  cost = held % 1000000
  local left = redis.call('PTTL', KEYS[3])
  usage = left > 0 and math.min(2 ^ (left / day - 1), 1e9) or 0
end
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local since = now - lease
-- end history
local ordinary = redis.pcall('ZCOUNT', KEYS[2], since, '+inf')
if type(ordinary) == 'table' then
  return failed(ordinary, 'CORRUPTPENDING the key holds something other than pending documents')
end
local pending = ordinary + redis.call('ZCOUNT', KEYS[2], '-inf', -since)

-- begin level
local function doublings(x, first)
  local level = 1
  while x > first and level < 9 do
    level, first = level + 1, first * 2
  end
  return level
end
local function level_of(usage, thousandths, first)
  return math.ceil((doublings(usage, first * 1.000001) + doublings(thousandths, 2000 * first)) / 2)
end
-- A policy with fewer than 9 levels has one for the last, and one for the two before.
local function of(level, levels)
  if levels >= 9 then
    return level
  elseif level == 9 then
    return levels
  elseif level > 6 then
    return math.max(levels - 1, 1)
  end
  return math.max(1 + math.floor((level - 1) * (levels - 2) / 6), 1)
end
-- end level

local level = ruled(count)
if pending > 0 then
  local lowest = redis.call('ZRANGE', KEYS[2], 0, 0, 'WITHSCORES')
  local highest = redis.call('ZRANGE', KEYS[2], -1, -1, 'WITHSCORES')
  level = 9
  if -lowest[2] < highest[2] + 0 then
    level = level_of(usage, ordinary * cost, first)
  end
  level = of(level, levels)
end
local usage_left = held and 0 or -2
if usage > 0 then
  usage_left = math.floor(day * (1 + math.log(usage) / math.log(2)) + 0.5)
end
return {level, count, pending, math.max(count_left, 0), math.floor(100 * usage + 0.5), ordinary, cost, lease,
  held and math.floor(held / 1000000) or 0, usage_left, count_left}
