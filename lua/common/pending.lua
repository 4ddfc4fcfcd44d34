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
