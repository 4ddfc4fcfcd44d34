-- Returns all that is known of one customer now. Writes nothing.
--
-- KEYS[1]  <prefix>:{<customer>}:count, the string that next.lua writes
-- KEYS[2]  <prefix>:{<customer>}:pending, the sorted set that submit.lua explains
-- KEYS[3]  <prefix>:{<customer>}:override, the string that next.lua explains. Without
--          this key, no override is read.
-- KEYS[4]  and KEYS[5]: for a user of an account, the account's set and override
--
-- Reply    {rule, level, next_level, count, reset_in, load, recent, cost, pending,
--          flood, oldest, latency, lease, rule_level, earliest, latest, ends_in,
--          scheduled, account_load, account_flood}
--          rule: 2 if documents are pending or scheduled or recent ones have not faded,
--          else 1 if there is a count, else 0. level: of the last document by the count,
--          without an override; as the newest pending document was given it by the load, 0 if
--          none is pending. next_level: of a document that arrives now.
--          count and reset_in, in milliseconds: 0 if there is no count; a count
--          without a TTL has a reset_in of 0.
--          The next eight and the last three are 0 unless rule is 2. load: of a document
--          that arrives now, in millionths. recent and cost, in thousandths. pending:
--          how many documents are; flood: those beyond the last load. oldest: for how
--          long the oldest pending one has been due. latency: the average time until Done,
--          0: not known. lease: how long a document before the last load counts as
--          pending. oldest, latency and lease are in milliseconds.
--          rule_level: next_level without the override. earliest and latest: the
--          bounds of the override. ends_in: for how many milliseconds it holds, -1 if
--          it has no end. These three are 0 without an override.
--          scheduled: how many documents are due later. account_load and account_flood: the
--          same of the account as load and flood of its user; 0 without an account.
-- Errors   CORRUPTCOUNT, CORRUPTPENDING: a key holds something else. Redis's own
--          (NOPERM, LOADING …).
--
-- Try it   redis-cli --eval peek.lua 'priority:{acme}:count' 'priority:{acme}:pending'
--
-- The lines between "begin" and "end" are written by the module: lease, queue, order, levels
-- and loads are those of the default policy, the others are common to several scripts.

-- begin lease
local longest_lease = 86400000
-- end lease
-- begin queue
local queue_levels = 9
-- end queue
-- begin order
local in_order = false
-- end order

-- begin pending
local day = 86400000
local call, pcall, format = redis.call, redis.pcall, string.format
local floor, min, max, abs = math.floor, math.min, math.max, math.abs
local time = call('TIME')
local now = time[1] * 1000 + floor(time[2] / 1000)

-- read returns what a set holds as a table: four scores of our own, which lie below 1e13, less
-- than 256 times the time; those of the documents in members, behind them; and what follows from
-- our own now. Without a table it returns an error.
local function read(set, members)
  local scores = pcall('ZMSCORE', set, unpack(members))
  if scores.err then
    if string.find(scores.err, 'wrong kind of value', 1, true) then
      return nil, redis.error_reply('CORRUPTPENDING ' .. set .. ' holds something other than pending documents')
    end
    return nil, scores
  end
  local all, counted, average, latency, lease = call('ZCARD', set), 0, 1000, 0, longest_lease
  local fades, averages, lost, counted_to = scores[1], scores[2], scores[3], scores[4]
  if all > 0 then
    all = all - 2 - (lost and 1 or 0) - (counted_to and 1 or 0)
    fades, averages, lost, counted_to = (fades or 1e13) + 0, (averages or 1e13) + 0, (lost or 0) + 0, counted_to and counted_to + 0
    if fades < 0 or averages < 0 or lost < 0 or counted_to and counted_to < 0 then
      return nil, redis.error_reply('CORRUPTPENDING a later version wrote ' .. set)
    elseif fades >= 1e13 or averages >= 1e13 or averages % 1 > 0 or averages % 1000000 == 0 then
      return nil, redis.error_reply('CORRUPTPENDING ' .. set .. ' holds something other than pending documents')
    end
    if now <= fades then
      average = averages % 1000000
      latency = (averages - average) / 10000 -- in milliseconds
      if latency > 0 then
        lease = min(max(20 * latency, 180000), longest_lease)
      end
      if now < fades then
        counted = min(floor(1000 * 2 ^ ((fades - now) / day - 1) + 0.5), 512000)
      end
    end
  end
  return {set = set, scores = scores, all = all, fades = fades, counted_to = counted_to, counted = counted,
    average = average, latency = latency, lease = lease, since = max(now - lease, lost or 0), ordinary = 0, flood = 0, uncounted = 0}
end

-- count notes how many documents of a set are pending that are due no later than a time, before
-- the last load and in a flood, and how many of them the recent ones lack.
local function count(book, due)
  if book.all > 0 then
    local set, bound = book.set, format('%d', 256 * (due + 1))
    book.ordinary = call('ZCOUNT', set, format('%d', 256 * book.since), '(' .. bound)
    local others = book.ordinary < book.all
    book.flood = others and call('ZCOUNT', set, '(-' .. bound, format('-%d', 256 * (now - longest_lease))) or 0
    if book.counted_to then
      local from = format('%d', 256 * max(book.counted_to + 1, now - day))
      book.uncounted = call('ZCOUNT', set, from, '(' .. bound) + (others and call('ZCOUNT', set, '(-' .. bound, '-' .. from) or 0)
    end
  end
end
-- end pending

local count_text = pcall('GET', KEYS[1])
if count_text and (count_text.err or not (count_text == '0' or #count_text <= 16 and
  string.find(count_text, '^-?[1-9]%d*$') and abs(count_text) < 1e15)) then
  if count_text.err and not string.find(count_text.err, 'wrong kind of value', 1, true) then
    return count_text
  end
  return redis.error_reply('CORRUPTCOUNT the key holds something other than a count')
end
local reset_in = count_text and max(call('PTTL', KEYS[1]), 0) or 0

local own = {':fades', ':averages', ':lost', ':counted'}
local user, failure = read(KEYS[2], own)
local account
if user and KEYS[4] then
  account, failure = read(KEYS[4], own)
end
if failure then
  return failure
end

local first_override, override_step = 3, 2
-- begin override
-- The bounds of an operator's override, if one is in force: of the first of its keys that holds
-- one. A key of another kind is none; a right to read it that is missing is an error.
local earliest, latest, override
for at = first_override, #KEYS, override_step do
  local ruling = redis.pcall('GET', KEYS[at])
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
      override = KEYS[at]
      break
    end
  end
end
-- end override

-- level_of returns the level of a load, and whether it is beyond the last one.
local function level_of(load, pending_flood)
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
elseif pending_flood >= 4096 then level = 9
elseif pending_flood >= 256 then level = 8
elseif pending_flood >= 16 then level = 7
end
-- end loads
  return level, flood
end

local function recent_of(book)
  return min(book.counted + 1000 * book.uncounted, 512000)
end

-- next_of returns the load of a document that arrives now, its level, and whether it is beyond
-- the last load.
local function next_of(book)
  local load = min(min(recent_of(book) + 1000, 512000) * (book.ordinary + 1) * user.average, 1e15)
  return load, level_of(load, book.flood + 1)
end

count(user, now)
local scheduled = 0
if user.ordinary + user.flood < user.all then
  local later = format('%d', 256 * (now + 1))
  scheduled = call('ZCOUNT', user.set, later, '+inf') + call('ZCOUNT', user.set, '-inf', '-' .. later)
end
local reply
if user.ordinary + user.flood + user.uncounted + scheduled > 0 or user.fades and now <= user.fades then -- by the load
  -- The newest document that is due, and the oldest. In the set, a flood's documents come first,
  -- the newest of them at the front, and the others last, the newest of them at the end. The newest
  -- of each kind binds what is in order.
  local newest, oldest, order = 0, 256 * now, 0
  local function look(from, to, reverse)
    local score = call('ZRANGE', user.set, from, to, 'BYSCORE', unpack(reverse))[2]
    newest, oldest = max(newest, abs(score)), min(oldest, abs(score))
    return abs(score) % 256
  end
  local first, last = {'LIMIT', '0', '1', 'WITHSCORES'}, {'REV', 'LIMIT', '0', '1', 'WITHSCORES'}
  if user.ordinary > 0 then
    local from, bound = format('%d', 256 * user.since), format('(%d', 256 * (now + 1))
    order = look(bound, from, last)
    look(from, bound, first)
  end
  if user.flood > 0 then
    local from, bound = format('-%d', 256 * (now - longest_lease)), format('(-%d', 256 * (now + 1))
    order = max(order, look(bound, from, first))
    look(from, bound, last)
  end
  local load, level, flood = next_of(user)
  local account_load, account_flood = 0, 0
  if account then
    local accounts, beyond
    count(account, now)
    account_load, accounts, beyond = next_of(account)
    account_flood = account.flood
    if flood or beyond then
      level = level_of(math.huge, account_flood + 1)
    else
      level = max(level, accounts - 1)
    end
  end
  if in_order then
    level = max(level, order)
  end
  reply = {2, newest % 256, level, (count_text or 0) + 0, reset_in, load, recent_of(user), user.average, user.ordinary + user.flood, user.flood,
    max(now - floor(oldest / 256), 0), user.latency, user.lease, level, 0, 0, 0, scheduled, account_load, account_flood}
else -- by the count, if there is one
  local last_level, next_level
  for ahead = 0, 1 do -- the last document, and then the next one
    local count = (count_text or 1) - ahead
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
  if count_text then
    reply = {1, last_level, next_level, count_text + 0, reset_in, 0, 0, 0, 0, 0, 0, 0, 0, next_level, 0, 0, 0, 0, 0, 0}
  else
    reply = {0, 0, next_level, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, next_level, 0, 0, 0, 0, 0, 0}
  end
end
if earliest then
  reply[3] = min(max(reply[3], earliest), latest)
  reply[15], reply[16], reply[17] = earliest, latest, call('PTTL', override)
end
return reply
