-- Submits documents of one customer: counts those that are not pending yet, makes
-- all of them pending, and decides their levels.
--
-- KEYS[1]  <prefix>:{<customer>}:count, a string: the count in decimal
-- KEYS[2]  <prefix>:{<customer>}:pending, a sorted set: the pending documents by the
--          time of their Submit, in milliseconds of Redis's time; below zero are
--          those that were given the last level
-- KEYS[3]  <prefix>:{<customer>}:usage, a string. Its TTL says how much was submitted
--          lately: u documents make it 1 + log2(u) days, so that u halves each day.
--          Its value is the average time from Submit to Done in tenths of a second,
--          and then six digits: the cost, in thousandths of that of all customers.
-- ARGV     the ids of 1 to 100 documents
--
-- Reply    {level, count, pending, …, reset_in}: for each document its level, 1
--          being first, the count and the number of pending documents after it;
--          at last the milliseconds until the count starts afresh.
-- Errors   CORRUPTCOUNT, CORRUPTPENDING, CORRUPTUSAGE: a key holds something else.
--          ERR: ARGV is not 1 to 100 ids. Redis's own (READONLY, OOM …).
--          With any of them nothing was changed.
--
-- Try it   redis-cli --eval submit.lua 'priority:{acme}:count' \
--            'priority:{acme}:pending' 'priority:{acme}:usage' , invoice-1 invoice-2
--
-- A document's level is the mean, rounded up, of two: that of what was submitted
-- lately, which is 1 up to first documents and one more for each doubling, and that
-- of what is pending times its cost, which is 1 up to twice as much. What has the
-- last level does not count there, nor what is older than a lease, which is 20
-- times as long as documents take from Submit to Done. The count is that of
-- next.lua, and does not matter to the level.
--
-- The blocks policy, lease and scale are those of the default policy; the module
-- writes others there for another one.

-- begin policy
local interval = '1500000'
local since_last_reset = false
-- end policy
-- begin lease
local longest_lease = 86400000
-- end lease
-- begin scale
local first = 2
local levels = 9
-- end scale
local day = 86400000

if #ARGV < 1 or #ARGV > 100 then
  return redis.error_reply('ERR the number of documents is not 1 to 100')
end

local corrupt = 'CORRUPTCOUNT the key holds something other than a count'
local function failed(reply)
  if string.find(reply.err, 'not an integer', 1, true) or
    string.find(reply.err, 'wrong kind of value', 1, true) or
    string.find(reply.err, 'overflow', 1, true) then
    return redis.error_reply(corrupt)
  end
  return reply
end

-- What is known of the customer, and since when documents count as pending.
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

-- What is pending already: all that is younger than the lease, and of that what is
-- not at the last level. Documents that are submitted again, as after a lost reply,
-- are decided about as if they were not there.
local submitted = redis.pcall('ZCARD', KEYS[2])
if type(submitted) == 'table' then
  if string.find(submitted.err, 'wrong kind of value', 1, true) then
    return redis.error_reply('CORRUPTPENDING the key holds something other than pending documents')
  end
  return submitted
end
local ended, ordinary = 0, 0
if submitted > 0 then
  ended = redis.call('ZCOUNT', KEYS[2], '(' .. -since, '(' .. since)
  ordinary = redis.call('ZCOUNT', KEYS[2], since, '+inf')
end
local pending = submitted - ended
local n, seen, new, again, was_ordinary = 0, {}, {}, {}, {}
for i, document in ipairs(ARGV) do
  if not seen[document] then
    seen[document] = true
    local at = submitted > 0 and redis.call('ZSCORE', KEYS[2], document)
    at = at and tonumber(at) or 0
    if math.abs(at) < since then
      new[i] = true
      n = n + 1
    end
    if at >= since then
      ordinary = ordinary - 1
    end
    if not new[i] then
      again[i] = true
      usage = usage - 1
    end
  end
end

-- The count, as in next.lua.
local key, count, shown, reset_in = KEYS[1], nil, nil, nil
if n > 0 then
  local left = redis.call('PTTL', key)
  if left == -2 then
    count, shown = 1 - n, 0
    redis.call('SET', key, count, 'PX', interval)
  else
    count = redis.pcall('DECRBY', key, n)
    if type(count) == 'table' then
      return failed(count)
    end
    if count <= -1e15 or count + n >= 1e15 then
      redis.call('INCRBY', key, n)
      return redis.error_reply(corrupt)
    end
    shown = count + n
    if since_last_reset and left >= 0 and left <= interval + 0 then
      reset_in = left
    else
      redis.call('PEXPIRE', key, interval)
    end
  end
  reset_in = reset_in or interval + 0
else
  local value = redis.pcall('GET', key)
  if value and value.err then
    return failed(value)
  end
  if value and not (value == '0' or
    #value <= 16 and string.find(value, '^-?[1-9]%d*$') and math.abs(tonumber(value)) < 1e15) then
    return redis.error_reply(corrupt)
  end
  shown = value and tonumber(value) or 0
  reset_in = value and math.max(redis.call('PTTL', key), 0) or 0
end

-- What is older than a day is cleared in steps, so that no call takes long; each
-- step is more than a call adds, so that it does not pile up.
if ended > 0 then
  local old = now - day
  old = redis.call('ZRANGEBYSCORE', KEYS[2], '(' .. -old, '(' .. old, 'LIMIT', 0, #ARGV + 3)
  if #old > 0 then
    redis.call('ZREM', KEYS[2], unpack(old))
  end
end

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

local reply, submits = {}, {}
for i, document in ipairs(ARGV) do
  if new[i] then
    n = n - 1
    shown = count + n
    pending = pending + 1
  end
  if new[i] or again[i] then
    usage = usage + 1
  end
  if was_ordinary[document] then
    ordinary = ordinary - 1
  end
  local level = level_of(usage, (ordinary + 1) * cost, first)
  was_ordinary[document] = level < 9
  submits[2 * i - 1], submits[2 * i] = level < 9 and now or -now, document
  if level < 9 then
    ordinary = ordinary + 1
  end
  reply[3 * i - 2], reply[3 * i - 1], reply[3 * i] = of(level, levels), shown, pending
end
reply[#reply + 1] = reset_in

redis.call('ZADD', KEYS[2], unpack(submits))
redis.call('PEXPIRE', KEYS[2], day)
if next(new) then
  local left = math.floor(day * (1 + math.log(math.min(usage, 256 * first)) / math.log(2)) + 0.5)
  if held then
    redis.call('PEXPIRE', KEYS[3], left)
  else
    redis.call('SET', KEYS[3], '1000', 'PX', left)
  end
end
return reply
