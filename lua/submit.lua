-- Submits documents of one customer: counts those that are not pending yet, makes
-- all of them pending, and decides their levels.
--
-- KEYS[1]  <prefix>:{<customer>}:count, a string: the count in decimal
-- KEYS[2]  <prefix>:{<customer>}:pending, a sorted set: the pending documents by the
--          end of their leases, in milliseconds of Redis's time
-- ARGV     the ids of 1 to 100 documents
--
-- Reply    {level, count, pending, …, reset_in}: for each document its level, 1
--          being first, the count and the number of pending documents after it;
--          at last the milliseconds until the count starts afresh.
-- Errors   CORRUPTCOUNT, CORRUPTPENDING: the first or second key holds something
--          else. ERR: ARGV is not 1 to 100 ids. Redis's own (READONLY, OOM …).
--          With any of them nothing was changed.
--
-- Try it   redis-cli --eval submit.lua 'priority:{acme}:count' \
--            'priority:{acme}:pending' , invoice-1 invoice-2
--
-- A document's level is the mean, rounded up, of the level of the count, which
-- is that of next.lua, and the level of 1 minus the pending documents. The lines
-- between "begin" and "end" are those of the default policy; the module writes
-- others there for another policy.

-- begin policy
local interval = '1500000'
local since_last_reset = false
-- end policy
-- begin lease
local lease = 180000
-- end lease

local function level_of(count)
-- begin levels
local level = 1
if count < -2 then
  if count < -20 then level = 9
  elseif count < -14 then level = 8
  elseif count < -12 then level = 7
  elseif count < -10 then level = 6
  elseif count < -8 then level = 5
  elseif count < -6 then level = 4
  elseif count < -4 then level = 3
  else level = 2
  end
end
-- end levels
return level
end

if #ARGV < 1 or #ARGV > 100 then
  return redis.error_reply('ERR the number of documents is not 1 to 100')
end

local corrupt = 'CORRUPTCOUNT the key holds something other than a count'
local function failed(reply)
  if string.find(reply.err, 'not an integer', 1, true) or
    string.find(reply.err, 'wrong kind of value', 1, true) or
    string.find(reply.err, 'overflow', 1, true) then
    return redis.error_reply(corrupt)
  end
  return reply
end

-- What is pending already. Leases that have ended do not count, whether they are
-- cleared already or not.
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local ended = redis.pcall('ZCOUNT', KEYS[2], '-inf', '(' .. now)
if type(ended) == 'table' then
  if string.find(ended.err, 'wrong kind of value', 1, true) then
    return redis.error_reply('CORRUPTPENDING the key holds something other than pending documents')
  end
  return ended
end
local pending = redis.call('ZCARD', KEYS[2]) - ended
local n, seen, new, leases = 0, {}, {}, {}
for i, document in ipairs(ARGV) do
  local ends = seen[document] and now or redis.call('ZSCORE', KEYS[2], document)
  if not ends or tonumber(ends) < now then
    new[i] = true
    n = n + 1
  end
  seen[document] = true
  leases[2 * i - 1], leases[2 * i] = now + lease, document
end

-- The count, as in next.lua.
local key, count, shown, reset_in = KEYS[1], nil, nil, nil
if n > 0 then
  local left = redis.call('PTTL', key)
  if left == -2 then
    count, shown = 1 - n, 0
    redis.call('SET', key, count, 'PX', interval)
  else
    count = redis.pcall('DECRBY', key, n)
    if type(count) == 'table' then
      return failed(count)
    end
    if count <= -1e15 or count + n >= 1e15 then
      redis.call('INCRBY', key, n)
      return redis.error_reply(corrupt)
    end
    shown = count + n
    if since_last_reset and left >= 0 and left <= interval + 0 then
      reset_in = left
    else
      redis.call('PEXPIRE', key, interval)
    end
  end
  reset_in = reset_in or interval + 0
else
  local held = redis.pcall('GET', key)
  if held and held.err then
    return failed(held)
  end
  if held and not (held == '0' or
    #held <= 16 and string.find(held, '^-?[1-9]%d*$') and math.abs(tonumber(held)) < 1e15) then
    return redis.error_reply(corrupt)
  end
  shown = held and tonumber(held) or 0
  reset_in = held and math.max(redis.call('PTTL', key), 0) or 0
end

-- Leases that have ended are cleared in steps, so that no call takes long; each
-- step is more than a call adds, so that they do not pile up.
if ended > 0 then
  redis.call('ZREMRANGEBYRANK', KEYS[2], 0, math.min(ended, #ARGV + 3) - 1)
end
-- A process with a longer lease may have set later ends: they stand.
redis.call('ZADD', KEYS[2], 'GT', unpack(leases))
if redis.call('PTTL', KEYS[2]) < lease then
  redis.call('PEXPIRE', KEYS[2], lease)
end

local reply = {}
for i = 1, #ARGV do
  if new[i] then
    n = n - 1
    shown = count + n
    pending = pending + 1
  end
  reply[3 * i - 2] = math.floor((level_of(shown) + level_of(1 - pending) + 1) / 2)
  reply[3 * i - 1] = shown
  reply[3 * i] = pending
end
reply[#reply + 1] = reset_in
return reply
