-- Ends the pending state of documents of one customer, and learns from them how long
-- the customer's documents take.
--
-- KEYS[1]  <prefix>:{<customer>}:pending, the sorted set that submit.lua explains
-- KEYS[2]  for a user of an account, the account's set
-- ARGV[1]  how long each of them was worked on, in thousandths of what the documents of
--          all customers take, 1 to 999999; 0: not known
-- ARGV[2]  how many milliseconds ago each of them was done, with spaces between the numbers;
--          empty: just now
-- ARGV     then the ids of 1 to 1000 documents
--
-- Reply    {latency, level, …}: for each document the milliseconds from when it was due until it
--          was done, and the level that it was given; 0 and 0 for one that was not pending,
--          for the second of two of the same id, and for one that was submitted again after
--          it was done, which stays pending. A document whose lease has ended counts as
--          pending here, within a day.
-- Errors   CORRUPTPENDING: a key holds something else. ERR the …: ARGV is wrong.
--          Redis's own (NOPERM, READONLY …). With any of them nothing was changed, except that
--          without a right to a command here those before it have run.
--
-- Try it   redis-cli --eval done.lua 'priority:{acme}:pending' , 0 '' invoice-1

local cost, late, n = ARGV[1], ARGV[2], #ARGV - 2
local floor, min, max, abs = math.floor, math.min, math.max, math.abs
local day, format = 86400000, string.format
if not (cost and #cost <= 6 and (cost == '0' or string.find(cost, '^[1-9]%d*$'))) then
  return redis.error_reply('ERR the cost is not 0 to 999999')
elseif n < 1 or n > 1000 then
  return redis.error_reply('ERR the number of documents is not 1 to 1000')
end
cost = cost + 0
local time = redis.call('TIME')
local now = time[1] * 1000 + floor(time[2] / 1000)
local done_at
if late ~= '' then
  done_at = {}
  for ago in string.gmatch(late, '%d+') do
    done_at[#done_at + 1] = now - ago
  end
  if #done_at ~= n or string.find(late, '[^%d ]') then
    return redis.error_reply('ERR the times are not a number for each document')
  end
end

-- What the sets hold: a score of our own, and those of the documents in members, behind it.
local sets = {}
for b = 1, #KEYS do
  local set, members = KEYS[b], {':averages'}
  local prefix
  if b == 2 then -- the account's
    local user = string.match(KEYS[1], '}/(.*):pending$')
    prefix = ':/' .. #user .. '/' .. user
  end
  for i = 1, n do
    local id = ARGV[i + 2]
    if prefix then
      id = prefix .. id
    elseif string.byte(id) == 58 then
      id = ':' .. id
    end
    members[i + 1] = id
  end
  local scores = redis.pcall('ZMSCORE', set, unpack(members))
  if scores.err then
    if string.find(scores.err, 'wrong kind of value', 1, true) then
      return redis.error_reply('CORRUPTPENDING ' .. set .. ' holds something other than pending documents')
    end
    return scores
  end
  -- A set without averages is not ours.
  local averages = scores[1] and scores[1] + 0 or redis.call('ZCARD', set) > 0 and 1e13
  if averages and averages < 0 then
    return redis.error_reply('CORRUPTPENDING a later version wrote ' .. set)
  elseif averages and (averages % 0.5 > 0 or floor(averages) % 1000000 == 0) then
    return redis.error_reply('CORRUPTPENDING ' .. set .. ' holds something other than pending documents')
  end
  sets[b] = {members, scores, averages}
end

-- Both averages move by a tenth of the way for each document of the last day. The latency,
-- in tenths of a second, moves no further than for three times as long as usual, and nine
-- seconds are usual: one that was late must not make others look pending for hours. What a
-- flood's documents wait does not count. The cost moves no further than for eight times the
-- usual one of the customer's, or of all: one wild number changes little.
local reply = {}
for b = 1, #KEYS do
  local members, scores, averages = unpack(sets[b], 1, 3)
  local fades, lost, counted_to, more = 0, 0, nil, (averages or 0) % 1
  if more > 0 then -- there are more of our own
    local own = redis.call('ZMSCORE', KEYS[b], ':fades', ':lost', ':counted')
    fades, lost, counted_to = own[1] + 0, (own[2] or 0) + 0, own[3] and own[3] + 0
  end
  local average, latency, faded, missing, lost_before = 1000, 0, now > fades, 0, lost
  if averages then
    average = floor(averages) % 1000000
    latency = (floor(averages) - average) / 1000000
  end
  local ended, seen = {''}, {} -- ZREM needs one, and no document has this id
  for i = 1, n do
    local id, score = members[i + 1], scores[i + 1]
    local took, level, at = 0, 0, score and abs(score)
    if at and not seen[id] and not (done_at and at >= 256 * (done_at[i] + 1)) then
      seen[id], ended[#ended + 1], level = true, id, at % 256
      local due = (at - level) / 256
      took = max((done_at and done_at[i] or now) - due, 0)
      if not (took <= day) then -- an infinite score, set by hand, has no time
        took, level = 0, 0
      elseif due <= now then
        if counted_to and due > counted_to then -- the recent ones lack it
          missing = missing + 1
          if faded then -- so has what was learned
            latency, average, faded = 0, 1000, false
          end
        end
        if score + 0 > 0 then
          local tenths = max(floor((took + 50) / 100), 1)
          if latency > 0 then
            tenths = floor((9 * latency + min(tenths, 3 * max(latency, 90)) + 5) / 10)
            if tenths > latency and tenths > 90 then -- the lease grows: what was lost does not come back
              lost = max(lost, now - max(2000 * latency, 180000))
            end
          end
          latency = tenths
        end
        if cost > 0 then
          average = max(floor((9 * average + min(cost, 8 * max(average, 1000)) + 5) / 10), 1)
        end
      end
    end
    if b == 1 then
      reply[2 * i - 1], reply[2 * i] = took, level
    end
  end
  -- Also if none is pending: a read-only replica, which may not know a document yet, must
  -- answer READONLY and not 0.
  redis.call('ZREM', KEYS[b], unpack(ended))

  if lost > lost_before then
    redis.call('ZADD', KEYS[b], format('%d', lost), ':lost')
    more = 0.5
  end
  local learned = latency * 1000000 + average + more
  if averages and learned ~= averages then
    redis.call('ZADD', KEYS[b], format('%.1f', learned), ':averages')
  end
  if missing > 0 then
    local recent = now < fades and min(floor(1000 * 2 ^ ((fades - now) / day - 1) + 0.5), 512000) or 0
    recent = min(recent + 1000 * missing, 512000)
    fades = now + floor(day * (1 + math.log(recent / 1000) / math.log(2)) + 0.5)
    redis.call('ZADD', KEYS[b], format('%d', fades), ':fades')
    local ends = (floor(fades / day) + 1) * day
    if redis.call('PTTL', KEYS[b]) < ends - now then
      redis.call('PEXPIREAT', KEYS[b], format('%d', ends))
    end
  end
end
return reply
