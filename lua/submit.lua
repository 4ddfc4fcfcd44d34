-- Submits documents of one customer: makes them pending, and decides their levels. A
-- document that is pending already is counted once; its lease begins again.
--
-- KEYS[1]  <prefix>:{<customer>}:pending, a sorted set. Its members are the pending
--          documents, by 256 times the time of their Submit in milliseconds of Redis's
--          clock, plus the level; negative beyond the last load, in a flood. And two of
--          our own, whose scores lie between 0 and all documents':
--          ":fades"     when less than half a document is left of the recent ones, in
--                       milliseconds. They halve each day: u fade in 1 + log2(u) days.
--          ":averages"  a million times the average time from Submit to Done in tenths
--                       of a second, 0: not known; plus what a document costs, in
--                       thousandths of the average of all customers, 1 to 999999.
--          An id that begins with a colon has a second one in front. A later format
--          marks itself by negative scores of the two. The set's TTL ends after
--          ":fades", and a day after the last Submit at the earliest.
-- KEYS[2]  <prefix>:{<customer>}:override, the string that next.lua explains. Without
--          this key, no override is read.
-- ARGV     for each of 1 to 100 documents its id, and its cost in thousandths of the
--          average of all customers, 0 to 100000; 0: not known
--
-- Reply    {level, load, pending, rule_level, …}: for each document its level, 1 being
--          first; its load in millionths, at most 10^15; the number of
--          pending documents, this one included; and the level without the override.
--          With an override follow {…, earliest, latest, ends_in} of next.lua.
-- Errors   CORRUPTPENDING: the key holds something else. ERR the …: ARGV is wrong.
--          Redis's own (NOPERM, READONLY, OOM …). With any of them nothing was changed, except
--          that without a right to a command here those before it have run.
--
-- Try it   redis-cli --eval submit.lua 'priority:{acme}:pending' , invoice-1 0 invoice-2 0
--
-- The load is recent × pending × cost, this document included. Of more than 512 recent
-- documents, 512 count. What is beyond the last load does not count as pending, nor what
-- is older than a lease: 20 times the average time from Submit to Done. A document of
-- unknown cost has its customer's average.
--
-- The lines between "begin" and "end" are written by the module: lease, queue and levels
-- are those of the default policy, the others are common to several scripts.

-- begin lease
local longest_lease = 86400000
-- end lease
-- begin queue
local queue_levels = 9
-- end queue
local day = 86400000
local set, override = KEYS[1], KEYS[2]
local call, format = redis.call, string.format
local floor, min, max = math.floor, math.min, math.max

local n = #ARGV / 2
if n < 1 or n > 100 or n % 1 ~= 0 then
  return redis.error_reply('ERR the number of documents is not 1 to 100, each with its cost')
end
local members = {':fades', ':averages'}
for i = 1, n do
  local id = ARGV[2 * i - 1]
  if string.byte(id) == 58 then
    id = ':' .. id
  end
  members[i + 2] = id
end

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

-- Documents that are pending already, as after a lost reply, are taken out of the numbers,
-- and then decided about like new ones: they get the levels that they got before.
local pending, ended, any_new = ordinary + beyond, all - ordinary - beyond, false
local again = {}   -- by id, what such a document was of the recent ones
local decided = {} -- by id, that it was earlier in this call
for i = 3, n + 2 do
  local id, score = members[i], scores[i]
  if score and not again[id] then
    score = score + 0
    if score >= since then
      ordinary, again[id] = ordinary - 1, min(recent, 1000)
    elseif score <= -since then
      beyond, again[id] = beyond - 1, min(recent, 1000)
    end
    recent = recent - (again[id] or 0)
  end
end

local reply, adds = {}, {}
for i = 1, n do
  local id, cost = members[i + 2], ARGV[2 * i]
  if cost == '0' then
    cost = average
  elseif #cost <= 6 and string.find(cost, '^[1-9]%d*$') and cost + 0 <= 100000 then
    cost = cost + 0
  else
    return redis.error_reply('ERR the cost is not 0 to 100000')
  end
  if decided[id] == 'ordinary' then
    ordinary = ordinary - 1
  elseif decided[id] == 'flood' then
    beyond = beyond - 1
  else
    recent = min(recent + (again[id] or 1000), 512000)
    if not again[id] then
      pending, any_new = pending + 1, true
    end
  end
  local load = min(recent * (ordinary + 1) * cost, 1e15)
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
  local rule_level, sign = level, ''
  if flood then
    beyond, sign, decided[id] = beyond + 1, '-', 'flood'
  else
    ordinary, decided[id] = ordinary + 1, 'ordinary'
  end
  if earliest then
    level = min(max(level, earliest), latest)
  end
  adds[2 * i - 1], adds[2 * i] = sign .. format('%d', 256 * now + level), id
  reply[4 * i - 3], reply[4 * i - 2], reply[4 * i - 1], reply[4 * i] = level, load, pending, rule_level
end
if earliest then
  reply[4 * n + 1], reply[4 * n + 2], reply[4 * n + 3] = earliest, latest, call('PTTL', override)
end

local faded_on = fades and floor(fades / day) -- the day, as it was before this call
if any_new then
  if not fades or now > fades then -- what was learned has faded too
    adds[2 * n + 1], adds[2 * n + 2] = '1000', ':averages'
  end
  fades = now + floor(day * (1 + math.log(recent / 1000) / math.log(2)) + 0.5)
  adds[#adds + 1] = format('%d', fades)
  adds[#adds + 1] = ':fades'
end
call('ZADD', set, unpack(adds))

-- The set ends with the day in which the recent documents have faded, or with the one after
-- today, whichever is later. For most calls that is the same day as before, but a set that was
-- copied or restored may have no end.
local ends = floor(max(fades or 0, now + day) / day)
if ends ~= faded_on or call('PTTL', set) < 0 then
  call('PEXPIREAT', set, format('%d', (ends + 1) * day))
end

-- Documents of more than a day ago are cleared, at most 500 before the last load and beyond
-- it: that takes less than a millisecond, and is more than a call adds.
if ended > 0 then
  local old = format('%d', 256 * (now - day))
  for _, range in ipairs({{'(-' .. old, '(0'}, {'1e13', '(' .. old}}) do
    local ids = call('ZRANGE', set, range[1], range[2], 'BYSCORE', 'LIMIT', '0', '500')
    if #ids > 0 then
      call('ZREM', set, unpack(ids))
    end
  end
end
return reply
