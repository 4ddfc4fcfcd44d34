-- Changes one thing that operators may change, and writes down who did it and why. The
-- same change may be sent again: it is made once.
--
-- KEYS[1]  <prefix>:{control}:version, a string: "<version> <at> <token>" of the last
--          change of any kind. <at> is Redis's time in milliseconds.
-- KEYS[2]  <prefix>:{control}:log, a stream: one entry for each change, whose id is
--          <version>-0, with the fields at, item, old, new, until, who, why, token
-- KEYS[3]  of a policy: <prefix>:{control}:rules, a string; of an override or a forget:
--          <prefix>:{control}:overrides, a hash by customer; of a reset: none
-- KEYS[4]  of a policy: <prefix>:{control}:history, a list: the last 100 rules, the
--          newest first; of a forget: <prefix>:{control}:log-copy
-- ARGV[1]  the version of the item that is to be replaced or removed; 0: there is none
-- ARGV[2]  for how many milliseconds an override holds; 0: there is no end
-- ARGV[3]  a random token, 1 to 999999999999999
-- ARGV[4]  the most overrides that there may be
-- ARGV[5]  about how many entries the log keeps
-- ARGV[6]  a version that the new one must exceed, or 0
-- ARGV[7]  1: an override is to be removed, and the change is written down, also if no
--          override is stored; else 0
-- ARGV[8]  the item: "policy", "override:<customer>", "reset:<customer>", which is only
--          written down, or "forget:<customer>", which removes the customer's override and
--          is written down as "forget", without the customer; forget.lua follows
-- ARGV[9]  its new value, a JSON object: {"by":…,"why":…,"override":…} or
--          {"by":…,"why":…,"rules":…}, with "rules":null last if the workers' own
--          options are to hold; empty: an override is removed, or it is a reset or a forget
-- ARGV[10] who
-- ARGV[11] why
--
-- Reply    {1, version, left} of the change, left being for how many milliseconds an
--          override holds; {0, version, 0} of the item that is there instead of the one
--          to be replaced, 0 if there is none, and nothing was changed
-- Errors   CORRUPT: a key holds something else. NEWER: a later program wrote the item.
--          TOOMANY: there are ARGV[4] overrides. ERR: an argument is wrong. Redis's own
--          (NOPERM, READONLY, OOM …). With any of them nothing was changed.
--
-- Try it   redis-cli --eval change.lua 'priority:{control}:version' 'priority:{control}:log' \
--            'priority:{control}:overrides' , 0 3600000 42 10000 10000 0 0 override:acme \
--            '{"by":"mary","why":"a demo","override":"=1"}' mary 'a demo'
--
-- An item is stored as ARGV[9] with {"version":…,"at":…,"until":… in front: the change's
-- version, and Redis's time in milliseconds, 0 for no end. An item that cannot be read may
-- be replaced, unless it begins with {"format":. If ARGV[9] is what is stored, ARGV[1] need
-- not be its version: with the same end nothing is changed, and an override of the same
-- length holds from now on. An override that is stored here holds once
-- <prefix>:{<customer>}:override says so, see next.lua: the caller writes that next.

local version_key, log, key, history = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local replaces, lasts, token, most, entries = ARGV[1] + 0, ARGV[2] + 0, ARGV[3], ARGV[4] + 0, ARGV[5]
local above, always, item, value, who, why = ARGV[6] + 0, ARGV[7] == '1', ARGV[8], ARGV[9], ARGV[10], ARGV[11]
local kind, customer = string.match(item, '^(%l+):?(.*)$')
if not ((kind == 'policy' and history and value ~= '') or (kind == 'override' and key) or kind == 'reset' or
  (kind == 'forget' and history)) or who == '' or why == '' then
  return redis.error_reply('ERR the change is not one of an item by somebody for a reason')
elseif kind == 'forget' then
  item = kind
end

local function corrupt(name)
  return redis.error_reply('CORRUPT ' .. name .. ' holds something else')
end
local failure -- the first one
local function try(command, name, ...)
  local reply = redis.pcall(command, name, ...)
  if type(reply) ~= 'table' or not reply.err then
    return reply
  elseif failure then
    return nil
  elseif string.find(reply.err, 'wrong kind of value', 1, true) then
    failure = corrupt(name)
  elseif string.find(reply.err, 'The user executing the script', 1, true) then -- Redis 6.2's NOPERM
    failure = redis.error_reply('NOPERM ' .. reply.err)
  else
    failure = reply
  end
end

-- A user who lacks a right must not stop the change halfway. Redis 7.0 and later know the
-- rights; before, commands that fail by their arguments tell whether the user may run them.
local writes = {{'XADD', log, 'x', 'f', 'v'}, {'SET', version_key, 'v', 'PX', 'x'}}
if kind == 'policy' then
  writes[3], writes[4] = {'LTRIM', history, 'x', 'x'}, {'LPUSH', history, 'v'}
elseif kind == 'override' then
  writes[3], writes[4] = {'HSET', key, 'f', 'v', 'x'}, {'HDEL', key, ''}
elseif kind == 'forget' then
  writes[3] = {'HDEL', key, ''}
  if redis.acl_check_cmd then -- what forget.lua needs
    writes[4], writes[5], writes[6] = {'XRANGE', log, '-', '+'}, {'RENAME', history, log}, {'PERSIST', log}
    writes[7] = {'PEXPIRE', history, 1}
  end
end
for _, command in ipairs(writes) do
  if redis.acl_check_cmd then
    if not redis.acl_check_cmd(unpack(command)) then
      return redis.error_reply('NOPERM this user may not run ' .. command[1] .. ' on ' .. command[2])
    end
  elseif command[1] ~= 'LPUSH' then -- which is the first to write
    try(unpack(command))
    local why = failure and failure.err or ''
    if failure and not (string.find(why, 'Invalid stream ID', 1, true) or string.find(why, 'not an integer', 1, true) or
      string.find(why, 'wrong number of arguments', 1, true)) then
      return failure -- refused, or full: Redis 6.2 asks that only of a script's first write
    end
    failure = nil
  end
end

local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local last = try('XREVRANGE', log, '+', '-', 'COUNT', 20)
local version = try('GET', version_key)
local stored = false
if kind == 'policy' then
  stored = try('GET', key)
  try('LLEN', history)
elseif kind == 'override' then
  stored = try('HGET', key, customer)
elseif kind == 'forget' then
  stored = try('HGET', key, customer)
end
if failure then
  return failure
end
if stored and string.find(stored, '^{"format":') then
  return redis.error_reply('NEWER a later program wrote the item in ' .. key .. ': use that program')
elseif kind == 'forget' then
  stored = false
end

-- The change may have been made already.
for _, entry in ipairs(last) do
  local fields = {}
  for i = 1, #entry[2], 2 do
    fields[entry[2][i]] = entry[2][i + 1]
  end
  if fields.token == token and fields.item == item then
    return {1, string.match(entry[1], '^%d+') + 0, math.max((fields['until'] or 0) - now, 0)}
  end
end

local old, was, known = '', 0, false
if stored then
  local ok, held = pcall(cjson.decode, stored) -- somebody may have written it by hand
  held = ok and type(held) == 'table' and held or {}
  local number, till = held.version, held['until']
  if not till or till == cjson.null then
    till = 0
  end
  known = type(number) == 'number' and number >= 1 and number < 1e13 and number % 1 == 0 and
    type(till) == 'number' and till >= 0 and till < 1e15
  local withdrawn = kind == 'policy' and (held.rules == nil or held.rules == cjson.null)
  if known and (till == 0 or till > now) and not withdrawn then
    old, was = stored, number
    local rest = string.match(stored, '^{"version":%d+,"at":%d+,"until":%d+,(.*)$')
    if was ~= replaces and rest and '{' .. rest == value then -- the same once more
      if till == 0 or math.abs(till - now - lasts) <= math.min(lasts / 10, 10000) then
        return {1, was, till == 0 and 0 or till - now}
      elseif till - held.at == lasts then -- some time later: it holds as long again
        replaces = was
      end
    end
  end
end
local nothing = kind == 'override' and value == '' and was == 0 and (known or not stored)
if nothing and not always or was ~= replaces and not nothing then
  return {0, was, 0}
end

if version then
  version = string.match(version, '^(%d+) %d+ %d+$')
  if not version or #version > 13 then
    return corrupt(version_key)
  end
end
version = math.max(version or 0, above)
if last[1] then -- the log may know more than a version that was lost
  version = math.max(version, string.match(last[1][1], '^%d+') + 0)
end
version = version + 1
if version >= 1e13 then
  return corrupt(log)
end

if kind == 'override' and value ~= '' and not stored and (try('HLEN', key) or 0) >= most then
  local there, over = try('HGETALL', key) or {}, {}
  for i = 1, #there, 2 do
    local till = string.match(there[i + 1], '^{"version":%d+,"at":%d+,"until":(%d+),')
    if till and till ~= '0' and till + 0 <= now then
      over[#over + 1] = there[i]
    end
  end
  if #there / 2 - #over >= most then
    return redis.error_reply('TOOMANY there are ' .. most .. ' already')
  end
  for _, name in ipairs(over) do
    try('HDEL', key, name)
  end
end

local till = lasts > 0 and now + lasts or 0
local new = value
if value ~= '' then
  new = '{"version":' .. version .. ',"at":' .. now .. ',"until":' .. till .. ',' .. string.sub(value, 2)
end
if kind == 'policy' and string.sub(value, -13) ~= '"rules":null}' and not failure then
  if try('LPUSH', history, new) then
    redis.call('LTRIM', history, 0, 99)
  end
end
if failure or not try('XADD', log, 'MAXLEN', '~', entries, version .. '-0', 'at', now, 'item', item, 'old', old,
  'new', new, 'until', till, 'who', who, 'why', why, 'token', token) then
  return failure
end
if kind == 'policy' then
  redis.call('SET', key, new)
elseif kind == 'forget' or kind == 'override' and value == '' then
  redis.call('HDEL', key, customer)
elseif kind == 'override' then
  redis.call('HSET', key, customer, new)
end
redis.call('SET', version_key, version .. ' ' .. now .. ' ' .. token)
return {1, version, lasts}
