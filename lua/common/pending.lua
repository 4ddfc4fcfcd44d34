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
