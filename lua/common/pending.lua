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
