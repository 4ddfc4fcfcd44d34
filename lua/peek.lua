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
--          rule: 2 if documents are pending or scheduled or recent ones have not faded, those
--          of the account included, else 1 if there is a count, else 0. level: of the latest
--          document by the count, without an override; as the newest pending document was
--          given it by the load, 0 if none is pending. next_level: of a document that arrives now.
--          count and reset_in, in milliseconds: 0 if there is no count; a count
--          without a TTL has a reset_in of 0.
--          The next eight and the last three are 0 unless rule is 2. load: of a document
--          that arrives now, in millionths. recent and cost, in thousandths. pending:
--          how many documents are; flood: those beyond the last load. oldest: for how
--          long the oldest pending one has been due. latency: the average time until Done,
--          0: not known. lease: how long a document before the last load counts as
--          pending. oldest, latency and lease are in milliseconds.
--          rule_level: next_level without the override. earliest and latest: the
--          bounds of the override, which ends in ends_in milliseconds, -1: never. These
--          three are 0 without an override.
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

local day = 86400000
local call, format = redis.call, string.format
local floor, min, max, abs = math.floor, math.min, math.max, math.abs

local count_text = redis.pcall('GET', KEYS[1])
if count_text and (count_text.err or not (count_text == '0' or #count_text <= 16 and
  string.find(count_text, '^-?[1-9]%d*$') and abs(count_text) < 1e15)) then
  if count_text.err and not string.find(count_text.err, 'wrong kind of value', 1, true) then
    return count_text
  end
  return redis.error_reply('CORRUPTCOUNT the key holds something other than a count')
end
local reset_in = count_text and max(call('PTTL', KEYS[1]), 0) or 0

local time = call('TIME')
local now = time[1] * 1000 + floor(time[2] / 1000)
local members = {':fades', ':averages'}
local reply, is_known, next_level, is_flood, in_order_level
for at = 2, #KEYS, 2 do -- the customer's set, and the account's
  local set, due = KEYS[at], now
-- begin pending
  -- What a set holds: scores of our own, which lie below 1e13, less than 256 times the time; those
  -- of the documents in members, behind two of our own; and what follows now.
  local scores = redis.pcall('ZMSCORE', set, unpack(members))
  if scores.err then
    if string.find(scores.err, 'wrong kind of value', 1, true) then
      return redis.error_reply('CORRUPTPENDING ' .. set .. ' holds something other than pending documents')
    end
    return scores
  end
  local fades, averages, lost, counted_to = scores[1], scores[2], 0, nil
  local all, counted, average, latency, lease = call('ZCARD', set), 0, 1000, 0, longest_lease
  if all > 0 then
    fades, averages, all = (fades or 1e13) + 0, (averages or 1e13) + 0, all - 2
    if averages % 1 == 0.5 then -- there are more of our own
      local more = call('ZMSCORE', set, ':lost', ':counted')
      lost, counted_to = (more[1] or 0) + 0, more[2] and more[2] + 0
      averages, all = averages - 0.5, all - (more[1] and 1 or 0) - (more[2] and 1 or 0)
    end
    if fades < 0 or averages < 0 or lost < 0 or counted_to and counted_to < 0 then
      return redis.error_reply('CORRUPTPENDING a later version wrote ' .. set)
    elseif fades >= 1e13 or averages % 1 > 0 or averages % 1000000 == 0 then
      return redis.error_reply('CORRUPTPENDING ' .. set .. ' holds something other than pending documents')
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
-- end pending
-- begin due
    -- How many documents are pending when a document is due, before the last load and in a flood,
    -- and how many of them the counted ones lack. Those whose lease ends before are done by then.
    -- One with a delay also sees those that are due soon after it, for as long as its delay, a lease
    -- at most: else a flood that is submitted latest first would see nothing of itself.
    local ordinary, flood, uncounted = 0, 0, 0
    local to = due + min(due - now, lease)
    if all > 0 then
      local bound = format('%d', 256 * (to + 1)) -- which no score is, as levels begin at 1
      ordinary = call('ZCOUNT', set, format('%d', 256 * max(due - lease, lost)), bound)
      if ordinary < all then
        flood = call('ZCOUNT', set, '-' .. bound, format('-%d', 256 * (due - longest_lease)))
      end
      if counted_to then
        local from = format('%d', 256 * max(counted_to + 1, due - day))
        uncounted = call('ZCOUNT', set, from, bound)
        if ordinary < all then
          uncounted = uncounted + call('ZCOUNT', set, '-' .. bound, '-' .. from)
        end
      end
    end
-- end due
  local recent = min(counted + 1000 * uncounted, 512000)
  is_known = is_known or ordinary + flood + uncounted > 0 or fades and now <= fades
  if at == 2 then
    local scheduled = 0
    if ordinary + flood < all then
      local later = format('%d', 256 * (now + 1))
      scheduled = call('ZCOUNT', set, later, '+inf') + call('ZCOUNT', set, '-inf', '-' .. later)
    end
    is_known = is_known or scheduled > 0
    -- The newest document that is due, and the oldest. In the set, a flood's documents come first,
    -- the newest of them at the front, and the others last, the newest of them at the end.
    local newest, newest_flood, oldest = 0, 0, 256 * now
    if ordinary > 0 then
      local from, to = format('%d', 256 * max(now - lease, lost)), format('(%d', 256 * (now + 1))
      newest = call('ZRANGE', set, to, from, 'BYSCORE', 'REV', 'LIMIT', '0', '1', 'WITHSCORES')[2] + 0
      oldest = ordinary == 1 and newest or call('ZRANGE', set, from, to, 'BYSCORE', 'LIMIT', '0', '1', 'WITHSCORES')[2] + 0
    end
    if flood > 0 then
      local from, to = format('-%d', 256 * (now - longest_lease)), format('(-%d', 256 * (now + 1))
      newest_flood = -call('ZRANGE', set, to, from, 'BYSCORE', 'LIMIT', '0', '1', 'WITHSCORES')[2]
      oldest = min(oldest, -call('ZRANGE', set, from, to, 'BYSCORE', 'REV', 'LIMIT', '0', '1', 'WITHSCORES')[2])
    end
    in_order_level = max(newest % 256, newest_flood % 256)
    reply = {2, max(newest, newest_flood) % 256, 0, (count_text or 0) + 0, reset_in, 0, recent, average, ordinary + flood, flood,
      max(now - floor(oldest / 256), 0), latency, lease, 0, 0, 0, 0, scheduled, 0, 0}
  end

  local load, pending_flood = min(min(recent + 1000, 512000) * (ordinary + 1) * reply[8], 1e15), flood + 1
  if at == 2 then
    reply[6] = load
  else
    reply[19], reply[20] = load, flood
    if is_flood then -- the user is beyond the last load: it is the account's turn
      load = math.huge
    end
  end
  do
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
    if at == 4 and not flood then
      level = max(next_level, level - 1)
    end
    next_level, is_flood = level, flood
  end
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

if is_known then -- by the load
  if in_order then
    next_level = min(max(next_level, in_order_level), queue_levels)
  end
else -- by the count, if there is one
  local last_level
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
    reply = {1, last_level, 0, count_text + 0, reset_in, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}
  else
    reply = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}
  end
end
reply[3], reply[14] = next_level, next_level
if earliest then
  reply[3] = min(max(next_level, earliest), latest)
  reply[15], reply[16], reply[17] = earliest, latest, call('PTTL', override)
end
return reply
