-- Submits documents of one customer: makes them pending, and decides their levels.
--
-- KEYS[1]  <prefix>:{<customer>}:pending, a sorted set: the pending documents, each by
--          64 times the time of its Submit, in milliseconds of Redis's clock, plus its
--          level. Below zero are those beyond the last load.
-- KEYS[2]  <prefix>:{<customer>}:usage, a string. Its TTL says how much was submitted
--          lately: u documents make it 1 + log2(u) days, so that u halves each day.
--          Its value is the average time from Submit to Done in tenths of a second,
--          and then six digits: what a document costs, in thousandths of the average.
--          Digits alone are the first format; a later one begins with "v2", "v3" …
-- KEYS[3]  <prefix>:{<customer>}:override, the string that next.lua explains. Without
--          this key, no override is read.
-- ARGV     for each of 1 to 100 documents its id, and its cost in thousandths of the
--          average of all customers, 0 to 100000; 0: not known
--
-- Reply    {level, load, pending, ruled, …}: for each document its level, 1 being
--          first; its load in millionths, at most a billion loads; the number of
--          pending documents, this one included; and with an override the level
--          without it, else 0. With an override follow {…, earliest, latest, ends_in}
--          of next.lua.
-- Errors   CORRUPTPENDING, CORRUPTUSAGE: a key holds something else. ERR: ARGV is
--          wrong. Redis's own (READONLY, OOM …). With any of them nothing was changed,
--          except that without a right to a command here those before it have run.
--
-- Try it   redis-cli --eval submit.lua 'priority:{acme}:pending' \
--            'priority:{acme}:usage' , invoice-1 0 invoice-2 0
--
-- The load is submitted lately × pending × cost, this document included. Of more than
-- 512 documents lately, 512 count. What is beyond the last load does not count as
-- pending, nor what is older than a lease: 20 times as long as documents take from
-- Submit to Done. A document of unknown cost has the average of its customer.
--
-- The blocks lease, turns, queue and loads are those of the default policy; the module
-- writes others there for another one.

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
local set, usage, override = KEYS[1], KEYS[2], KEYS[3]
local call, format, find = redis.call, string.format, string.find
local floor, min, max = math.floor, math.min, math.max

local n = #ARGV / 2
if n < 1 or n > 100 or n % 1 ~= 0 then
  return redis.error_reply('ERR the number of documents is not 1 to 100, each with its cost')
end

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

-- What is pending already: younger than the lease, and of that what is beyond the
-- last load. What is from the future, as after a failover to a clock that is behind, does
-- not count until then: nothing may count for longer than a lease.
local all = redis.pcall('ZCARD', set)
if type(all) == 'table' then
  if find(all.err, 'wrong kind of value', 1, true) then
    return redis.error_reply('CORRUPTPENDING the key holds something other than pending documents')
  end
  return all
end
local ordinary, beyond = 0, 0
if all > 0 then
  local from, to = format('%d', since), format('%d', newest)
  ordinary = call('ZCOUNT', set, from, to)
  if ordinary < all then
    beyond = call('ZCOUNT', set, '-' .. to, '-' .. from)
  end
end
local pending = ordinary + beyond
local ended = all - pending

-- Takes a document out that is pending already, as after a lost reply: it is decided
-- about as if it were not there.
local function taken_out(score)
  score = score and score + 0 or 0
  if math.abs(score) > newest then
    pending = pending + 1
  elseif score >= since then
    ordinary = ordinary - 1
  elseif score <= -since then
    beyond = beyond - 1
  else
    return false
  end
  lately = max(lately - 1000, 0)
  return true
end

-- Returns the level, load, score and ruled level of a document that lately has in it,
-- and the other numbers do not.
local function decided(cost)
  if cost == '0' then
    cost = average
  elseif cost and #cost <= 6 and find(cost, '^%d+$') and cost + 0 <= 100000 then
    cost = max(cost + 0, 1)
  else
    return nil
  end
  if lately > 512000 then
    lately = 512000
  end
  local load = min(lately * (ordinary + 1) * cost, 1e15)
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
  local sign, ruled = '', 0
  if level >= last then
    sign = '-'
    if turns > 0 then
      local _, doublings = math.frexp(beyond + 1)
      level = level + min(doublings - 1, turns)
    end
  end
  if earliest then
    ruled, level = level, min(max(level, earliest), latest)
  end
  return level, load, sign .. format('%d', 64 * now + min(level, 63)), ruled
end

local reply, new
local wrong = 'ERR the cost is not 0 to 100000'
if n == 1 then -- it is new most often, and then one command says so and adds it
  local before = lately
  lately, new = lately + 1000, 1
  local level, load, score, ruled = decided(ARGV[2])
  if not level then
    return redis.error_reply(wrong)
  end
  if call('ZADD', set, 'NX', score, ARGV[1]) == 0 then
    if taken_out(call('ZSCORE', set, ARGV[1])) then
      lately, new = max(before, 1000), 0
      level, load, score, ruled = decided(ARGV[2])
    else
      ended = ended - 1
    end
    call('ZADD', set, score, ARGV[1])
  end
  reply = {level, load, pending + new, ruled}
else
  reply, new = {}, 0
  local ids, seen, scores = {}, {}, {}
  for i = 1, n do
    ids[i] = ARGV[2 * i - 1]
  end
  if all > 0 then
    scores = call('ZMSCORE', set, unpack(ids))
  end
  for i, document in ipairs(ids) do
    if seen[document] == nil then
      seen[document] = taken_out(scores[i]) and 'again' or 'new'
    end
  end
  local adds = {}
  for i, document in ipairs(ids) do
    local was = seen[document]
    if was == 'ordinary' then -- it is twice in this call
      ordinary = ordinary - 1
    elseif was == 'beyond' then
      beyond = beyond - 1
    else
      lately = lately + 1000
      if was == 'new' then
        new = new + 1
      end
    end
    local level, load, score, ruled = decided(ARGV[2 * i])
    if not level then
      return redis.error_reply(wrong)
    end
    if find(score, '-', 1, true) then
      beyond, seen[document] = beyond + 1, 'beyond'
    else
      ordinary, seen[document] = ordinary + 1, 'ordinary'
    end
    adds[2 * i - 1], adds[2 * i] = score, document
    reply[4 * i - 3], reply[4 * i - 2], reply[4 * i - 1], reply[4 * i] = level, load, pending + new, ruled
  end
  call('ZADD', set, unpack(adds))
end
if earliest then
  reply[4 * n + 1], reply[4 * n + 2], reply[4 * n + 3] = earliest, latest, call('PTTL', override)
end
call('PEXPIRE', set, '86400000')
if new > 0 then
  local left = day * (1 + math.log(lately / 1000) / math.log(2))
  left = format('%d', floor(left + 0.5))
  if held then
    call('PEXPIRE', usage, left)
  else
    call('SET', usage, '1000', 'PX', left)
  end
end

-- What is older than a day is cleared, in steps of less than a millisecond, each of
-- which is more than a call adds.
if ended > 0 then
  local old = format('%d', 64 * (now - day))
  old = call('ZRANGEBYSCORE', set, '(-' .. old, '(' .. old, 'LIMIT', '0', '1000')
  if #old > 0 then
    call('ZREM', set, unpack(old))
  end
end
return reply
