-- Submits documents of one customer: makes them pending, and decides their levels. A document
-- that is pending already keeps its level and is not counted again; its lease begins again.
--
-- KEYS[1]  <prefix>:{<customer>}:pending, a sorted set. Its members are the pending
--          documents, by 256 times the time when they are due, in milliseconds of Redis's
--          clock, plus the level; negative beyond the last load, in a flood. Up to four more
--          members are our own. Their scores lie between 0 and those of all documents:
--          ":fades"     when less than half a document is left of the recent ones, in
--                       milliseconds. They halve each day: u fade in 1 + log2(u) days.
--          ":averages"  a million times the average time until Done in tenths of a second,
--                       0: not known; plus what a document costs, in thousandths of the
--                       average of all customers, 1 to 999999; plus a half if the set may
--                       have the next two.
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
--          and in how many milliseconds it is due, 1 to 31536000000; else it is due now.
--          Behind all there may be a deadline in milliseconds of Redis's time, 0: none. After it the
--          process has gone on without the answer, and its Done may have come already.
--
-- Reply    {level, load, pending, rule_level, …}: for each document its level, 1 being
--          first; its load in millionths, at most 10^15; the number of documents that are
--          pending when it is due, this one included; and the level without the override.
--          With a deadline, Redis's time in milliseconds follows.
-- Errors   CORRUPTPENDING: a key holds something else. ERR the …: ARGV is wrong. LATE: the
--          deadline is over. Redis's own (NOPERM, READONLY, OOM …). With any of them nothing was
--          changed, except that without a right to a command here those before it have run.
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

local day = 86400000
local call, format = redis.call, string.format
local floor, min, max, abs = math.floor, math.min, math.max, math.abs

local n, delayed = floor(#ARGV / 2), false
local deadline = #ARGV % 2 == 1 and ARGV[#ARGV]
if n < 1 or n > 100 or deadline and not string.find(deadline, '^%d+$') then
  return redis.error_reply('ERR the number of documents is not 1 to 100, each with its cost')
end
local members, sets = {':fades', ':averages'}, KEYS[3] and 2 or 1
for i = 1, n do
  local id, cost, delay = ARGV[2 * i - 1], ARGV[2 * i], nil
  if #cost > 2 and string.find(cost, ' ', 1, true) then
    cost, delay = string.match(cost, '^(%d+) ([1-9]%d*)$')
    if not cost or #delay > 11 or delay + 0 > 31536000000 then
      return redis.error_reply('ERR the delay is not 1 to 31536000000')
    end
    delayed = true
  end
  if cost ~= '0' and not (#cost <= 6 and string.find(cost, '^[1-9]%d*$') and cost + 0 <= 100000) then
    return redis.error_reply('ERR the cost is not 0 to 100000')
  end
  if string.byte(id) == 58 then
    id = ':' .. id
  end
  members[i + 2] = id
end

local time = call('TIME')
local now = time[1] * 1000 + floor(time[2] / 1000)
if deadline and deadline ~= '0' and now > deadline + 0 then
  return redis.error_reply('LATE the deadline of the call is over')
end
local books = {}
for b = 1, sets do
  local set, members = KEYS[2 * b - 1], members
  if b == 2 then -- the account's
    local user = string.match(KEYS[1], '}/(.*):pending$')
    members = {':fades', ':averages'}
    for i = 1, n do
      members[i + 2] = ':/' .. #user .. '/' .. user .. ARGV[2 * i - 1]
    end
  end
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
  books[b] = {members = members, scores = scores, all = all, fades = fades, counted_to = counted_to, counted = counted, average = average, averages = averages,
    lost = lost, lease = lease, adds = {}}
end

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

-- While documents are scheduled, those that have become due are added to the counted ones once an
-- hour.
for b = 1, sets do
  local set, book = KEYS[2 * b - 1], books[b]
  local all, lost, lease, counted_to, due = book.all, book.lost, book.lease, book.counted_to, now
  if counted_to and now - counted_to >= 3600000 then
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
    local later = format('%d', 256 * (now + 1))
    local scheduled = call('ZCOUNT', set, later, '+inf') + call('ZCOUNT', set, '-inf', '-' .. later)
    book.ended = all - ordinary - flood - scheduled
    book.counted, book.changed = min(book.counted + 1000 * uncounted, 512000), true
    book.counted_to = (delayed or scheduled > 0) and now or nil
    if not book.counted_to then
      call('ZREM', set, ':counted')
    end
  elseif delayed and not counted_to then
    book.counted_to = now
  end
  if book.counted_to and book.counted_to ~= counted_to then
    book.adds = {format('%d', now), ':counted'}
    if not counted_to and book.lost == 0 and book.fades then
      book.adds[3], book.adds[4] = format('%d.5', book.averages), ':averages'
    end
  end
end

local reply, placed, due, latest_due, newest, newest_flood = {}, n > 1 and {}, nil, now, 0, 0
for i = 1, n do
  local at, cost, delay = i + 2, ARGV[2 * i], 0
  if placed then -- the first of the call with this id
    at = placed[members[at]] or at
    placed[members[at]] = at
  end
  if delayed and string.find(cost, ' ', 1, true) then
    cost, delay = string.match(cost, '^(%d+) (%d+)$')
  end
  cost = cost == '0' and books[1].average or cost + 0
  local fresh = due ~= now + delay
  due = now + delay
  latest_due = max(latest_due, due)

  local decided, is_flood, own_load, pending_level = 1, false, 0, nil
  for b = 1, sets do
    local set, book = KEYS[2 * b - 1], books[b]
    local lost, lease, counted_to, share = book.lost, book.lease, book.counted_to, 1000
    if fresh then -- the numbers are those of another time
      if i > 1 then
        call('ZADD', set, unpack(book.adds))
        book.all, book.adds = book.all + #book.adds, {} -- at most
      end
      local all = book.all
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
      book.ordinary, book.flood, book.uncounted, book.to = ordinary, flood, uncounted, to
      book.ended = book.ended or counted_to and 0 or all - ordinary - flood
      -- Of the newest pending documents, before the last load and in a flood, the times and levels.
      -- Both bind the next one's level: one that was scheduled, or is submitted again, may be the
      -- newest with an early level, and a flood must not be overtaken for it.
      if in_order and b == 1 then
        local ordinary = call('ZRANGE', set, format('(%d', 256 * (due + 1)), format('%d', 256 * max(now - lease, lost)), 'BYSCORE', 'REV', 'LIMIT', '0', '1', 'WITHSCORES')[2]
        local flood = call('ZRANGE', set, format('(-%d', 256 * (due + 1)), format('-%d', 256 * (now - longest_lease)), 'BYSCORE', 'LIMIT', '0', '1', 'WITHSCORES')[2]
        newest, newest_flood = (ordinary or 0) + 0, -(flood or 0)
      end
    end

    -- The document is taken out of the numbers, if it is there, and is one of the recent ones as of
    -- when it is due.
    local score = book.scores[at]
    local pending, missing = false, false
    if score then
      score = score + 0
      local was = floor(abs(score) / 256)
      pending, missing = was >= (score > 0 and max(now - lease, lost) or now - longest_lease), counted_to and was > counted_to
      if was <= book.to then
        if score > 0 and was >= max(due - lease, lost) then
          book.ordinary = book.ordinary - 1
        elseif score < 0 and was >= due - longest_lease then
          book.flood = book.flood - 1
        end
        if missing and was >= due - day then
          book.uncounted = book.uncounted - 1
        end
      end
      if pending and not missing then
        share = min(book.counted, 1000)
        book.counted = book.counted - share
      end
    end
    if counted_to and due > counted_to then
      book.uncounted = book.uncounted + 1
    else
      book.counted = min(book.counted + share, 512000)
    end
    book.changed = book.changed or not pending or counted_to

    local load = min(min(book.counted + 1000 * book.uncounted, 512000) * (book.ordinary + 1) * cost, 1e15)
    if b == 1 then
      own_load = load
      if pending then
        pending_level, is_flood = max(abs(score) % 256, 1), score < 0
      end
    end
    if not pending_level then
      local pending_flood = book.flood + 1
      if is_flood then -- the user is beyond the last load: it is the account's turn
        load = math.huge
      end
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
      if b == 2 and not flood then
        level = max(decided, level - 1)
      end
      decided, is_flood = level, flood
    end
  end

  local level, rule_level = pending_level, pending_level
  if not level then
    rule_level = min(max(decided, newest % 256, newest_flood % 256), queue_levels)
    level = earliest and min(max(rule_level, earliest), latest) or rule_level
  end
  local score = (256 * due + level) * (is_flood and -1 or 1)
  local text = format('%d', score)
  for b = 1, sets do
    local book = books[b]
    local adds = book.adds
    local k = #adds
    adds[k + 1], adds[k + 2] = text, book.members[at]
    if is_flood then
      book.flood = book.flood + 1
    else
      book.ordinary = book.ordinary + 1
    end
    book.scores[at] = score
  end
  if in_order then
    newest, newest_flood = max(newest, score), max(newest_flood, -score)
  end
  reply[4 * i - 3], reply[4 * i - 2], reply[4 * i - 1], reply[4 * i] = level, own_load, books[1].ordinary + books[1].flood, rule_level
end
if deadline then
  reply[#reply + 1] = now
end

for b = 1, sets do
  local set, book = KEYS[2 * b - 1], books[b]
  local adds, fades = book.adds, book.fades
  if not fades or book.changed then
    local k = #adds
    if not fades or now > fades then -- what was learned has faded too
      adds[k + 1], adds[k + 2], k = (book.counted_to or book.lost > 0) and '1000.5' or '1000', ':averages', k + 2
    end
    fades = max(now, now + floor(day * (1 + math.log(book.counted / 1000) / math.log(2)) + 0.5)) -- of none, now
    adds[k + 1], adds[k + 2] = format('%d', fades), ':fades'
  end
  call('ZADD', set, unpack(adds))

  -- The set ends with a day, so that its end is rarely written. One that was copied or restored
  -- may have none.
  local ends = (floor(max(fades, latest_due + day) / day) + 1) * day
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
