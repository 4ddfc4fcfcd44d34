-- Submits documents of one customer: makes them pending, and decides their levels. A document
-- that is pending already keeps its level and is not counted again; its lease begins again.
--
-- KEYS[1]  <prefix>:{<customer>}:pending, a sorted set. Its members are the pending
--          documents, by 256 times the time when they are due, in milliseconds of Redis's
--          clock, plus the level; negative beyond the last load, in a flood. And up to four of
--          our own, whose scores lie between 0 and all documents':
--          ":fades"     when less than half a document is left of the recent ones, in
--                       milliseconds. They halve each day: u fade in 1 + log2(u) days.
--          ":averages"  a million times the average time until Done in tenths of a second,
--                       0: not known; plus what a document costs, in thousandths of the
--                       average of all customers, 1 to 999999.
--          ":lost"      a time: what was due before it is presumed lost, if before the last
--                       load. done.lua writes it when the lease grows.
--          ":counted"   while documents are scheduled, a time: the recent documents of ":fades"
--                       are those due until then, and later ones count besides.
--          An id that begins with a colon has a second one in front. A later format
--          marks itself by negative scores of our own. The set's TTL ends after ":fades",
--          and a day after the last document is due at the earliest.
-- KEYS[2]  <prefix>:{<customer>}:override, the string that next.lua explains. Without
--          this key, no override is read.
-- KEYS[3]  and KEYS[4]: for a user of an account, the same keys of the account, while KEYS[1]
--          and KEYS[2] are <prefix>:{<account>}/<user>:pending and …:override. The account's
--          set has the documents of all users: each as ":/", the number of bytes of <user>,
--          "/", <user> and the id.
-- ARGV     for each of 1 to 100 documents its id, and its cost in thousandths of the average
--          of all customers, 0 to 100000; 0: not known. Behind the cost there may be a space
--          and in how many milliseconds it is due, 1 to 31536000000; else it is due now
--
-- Reply    {level, load, pending, rule_level, …}: for each document its level, 1 being
--          first; its load in millionths, at most 10^15; the number of pending documents that
--          are due no later, this one included; and the level without the override.
--          With an override follow {…, earliest, latest, ends_in} of next.lua.
-- Errors   CORRUPTPENDING: a key holds something else. ERR the …: ARGV is wrong.
--          Redis's own (NOPERM, READONLY, OOM …). With any of them nothing was changed, except
--          that without a right to a command here those before it have run.
--
-- Try it   redis-cli --eval submit.lua 'priority:{acme}:pending' , invoice-1 0 invoice-2 0
--
-- The load is recent × pending × cost, this document included, at the time when it is due. Of
-- more than 512 recent documents, 512 count. What is beyond the last load does not count as
-- pending, nor what is older than a lease: 20 times the average time until Done. A document of
-- unknown cost has its customer's average. With an account, a document that is beyond the last
-- load of either is of a flood, and takes its turn by the account's; else its level is the
-- user's, or one less than the account's if that is more.
--
-- The lines between "begin" and "end" are written by the module: lease, queue, order and levels
-- are those of the default policy, the others are common to several scripts.

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

local n = #ARGV / 2
if n < 1 or n > 100 or n % 1 ~= 0 then
  return redis.error_reply('ERR the number of documents is not 1 to 100, each with its cost')
end
local members, costs, delays, delayed = {':fades', ':averages', ':lost', ':counted'}, {}, {}, false
local place, place_of = {}, {} -- in members, the first one of each id
for i = 1, n do
  local id, cost, delay = ARGV[2 * i - 1], ARGV[2 * i], 0
  if string.find(cost, ' ', 1, true) then
    cost, delay = string.match(cost, '^(%d+) ([1-9]%d*)$')
    if not cost or #delay > 11 or delay + 0 > 31536000000 then
      return redis.error_reply('ERR the delay is not 1 to 31536000000')
    end
    delay, delayed = delay + 0, true
  end
  if cost ~= '0' and not (#cost <= 6 and string.find(cost, '^[1-9]%d*$') and cost + 0 <= 100000) then
    return redis.error_reply('ERR the cost is not 0 to 100000')
  end
  costs[i], delays[i] = cost + 0, delay
  place[i] = place_of[id] or i + 4
  place_of[id] = place[i]
  members[i + 4] = string.byte(id) == 58 and ':' .. id or id
end

local user, failure = read(KEYS[1], members)
if not user then
  return failure
end
local account
if KEYS[3] then
  local name = string.match(KEYS[1], '}/(.*):pending$')
  local members = {unpack(members, 1, 4)}
  for i = 1, n do
    members[i + 4] = ':/' .. #name .. '/' .. name .. ARGV[2 * i - 1]
  end
  account, failure = read(KEYS[3], members)
  if not account then
    return failure
  end
  account.members = members
end
user.members = members

local first_override, override_step = 2, 2
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

-- settle adds the documents that have become due to the recent ones, once an hour.
local function settle(book)
  book.adds = {}
  local to = book.counted_to
  if to and now - to >= 3600000 then
    count(book, now)
    book.counted, book.changed = min(book.counted + 1000 * book.uncounted, 512000), true
    local bound = format('%d', 256 * (now + 1))
    local scheduled = call('ZCOUNT', book.set, bound, '+inf') + call('ZCOUNT', book.set, '-inf', '-' .. bound)
    book.ended = book.all - book.ordinary - book.flood - scheduled
    book.counted_to, book.uncounted = (delayed or scheduled > 0) and now or nil, 0
    if not book.counted_to then
      call('ZREM', book.set, ':counted')
    end
  elseif delayed and not to then
    book.counted_to = now
  end
  if book.counted_to ~= to and book.counted_to then
    book.adds[1], book.adds[2] = format('%d', now), ':counted'
  end
end

-- take takes a document out of a book's numbers, and adds it to the recent ones as of when it is
-- due. It returns its score if it is pending.
local function take(book, at, due)
  local score, to, share = book.scores[at], book.counted_to, 1000
  local pending = false
  if score then
    score = score + 0
    local was = floor(abs(score) / 256)
    local missing = to and was > to
    pending = score >= 256 * book.since or score <= -256 * (now - longest_lease)
    if was <= due then
      if not pending then -- it is presumed lost
      elseif score > 0 then
        book.ordinary = book.ordinary - 1
      else
        book.flood = book.flood - 1
      end
      if missing and was >= now - day then
        book.uncounted = book.uncounted - 1
      end
    end
    if pending and not missing then
      share = min(book.counted, 1000)
      book.counted = book.counted - share
    end
  end
  if to and due > to then
    book.uncounted = book.uncounted + 1
  else
    book.counted = min(book.counted + share, 512000)
  end
  book.changed = book.changed or not pending or to
  return pending and score
end

local function put(book, at, score)
  if score > 0 then
    book.ordinary = book.ordinary + 1
  else
    book.flood = book.flood + 1
  end
  book.scores[at] = score
  local adds = book.adds
  adds[#adds + 1], adds[#adds + 2] = format('%d', score), book.members[at]
end

local function load_of(book, cost)
  return min(min(book.counted + 1000 * book.uncounted, 512000) * (book.ordinary + 1) * cost, 1e15)
end

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

-- newest_until returns the score, without its sign, of the newest pending document that is due no
-- later than a time.
local function newest_until(due)
  local bound = format('%d', 256 * (due + 1))
  local ordinary = call('ZRANGE', user.set, '(' .. bound, format('%d', 256 * user.since), 'BYSCORE', 'REV', 'LIMIT', '0', '1', 'WITHSCORES')[2]
  local flood = call('ZRANGE', user.set, '(-' .. bound, format('-%d', 256 * (now - longest_lease)), 'BYSCORE', 'LIMIT', '0', '1', 'WITHSCORES')[2]
  return max((ordinary or 0) + 0, -(flood or 0))
end

local books = account and {user, account} or {user}
local reply, due, newest = {}, nil, 0
for i = 1, #books do
  settle(books[i])
end
for i = 1, n do
  local at, cost = place[i], costs[i]
  if due ~= now + delays[i] then -- the numbers are those of another time
    due = now + delays[i]
    for b = 1, #books do
      local book = books[b]
      if #book.adds > 0 then
        call('ZADD', book.set, unpack(book.adds))
        book.all, book.adds = book.all + 1, {}
      end
      count(book, due)
      book.ended = book.ended or book.counted_to and 0 or book.all - book.ordinary - book.flood
    end
    newest = in_order and newest_until(due) or 0
  end
  if cost == 0 then
    cost = user.average
  end
  local score = take(user, at, due)
  local load = load_of(user, cost)
  local level, rule_level, flood
  if account then
    take(account, at, due)
  end
  if score then
    level, flood = max(abs(score) % 256, 1), score < 0
    rule_level = level
  else
    level, flood = level_of(load, user.flood + 1)
    if account then
      local accounts, beyond = level_of(load_of(account, cost), account.flood + 1)
      if flood or beyond then
        level, flood = level_of(math.huge, account.flood + 1)
      else
        level = max(level, accounts - 1)
      end
    end
    level = max(level, newest % 256)
    rule_level = level
    if earliest then
      level = min(max(level, earliest), latest)
    end
  end
  score = (256 * due + level) * (flood and -1 or 1)
  for b = 1, #books do
    put(books[b], at, score)
  end
  if in_order then
    newest = max(newest, abs(score))
  end
  reply[4 * i - 3], reply[4 * i - 2], reply[4 * i - 1], reply[4 * i] = level, load, user.ordinary + user.flood, rule_level
end
if earliest then
  reply[4 * n + 1], reply[4 * n + 2], reply[4 * n + 3] = earliest, latest, call('PTTL', override)
end

for b = 1, #books do
  local book = books[b]
  local set, adds, fades = book.set, book.adds, book.fades
  if not fades or book.changed then
    if not fades or now > fades then -- what was learned has faded too
      adds[#adds + 1], adds[#adds + 2] = '1000', ':averages'
    end
    fades = now
    if book.counted > 0 then
      fades = max(now, now + floor(day * (1 + math.log(book.counted / 1000) / math.log(2)) + 0.5))
    end
    adds[#adds + 1], adds[#adds + 2] = format('%d', fades), ':fades'
  end
  call('ZADD', set, unpack(adds))

  -- The set ends with a day, so that its end is rarely written. One that was copied or restored
  -- may have none.
  local ends = (floor(max(fades, due + day) / day) + 1) * day
  if call('PTTL', set) < ends - now then
    call('PEXPIREAT', set, format('%d', ends))
  end

  -- Documents of more than a day ago are cleared, at most 500 before the last load and in a
  -- flood: that takes less than a millisecond, and is more than a call adds.
  if book.ended > 0 then
    local old = format('%d', 256 * (now - day))
    for _, range in ipairs({{'(-' .. old, '(0'}, {'1e13', '(' .. old}}) do
      local ids = call('ZRANGE', set, range[1], range[2], 'BYSCORE', 'LIMIT', '0', '500')
      if #ids > 0 then
        call('ZREM', set, unpack(ids))
      end
    end
  end
end
return reply
