-- Changes one item of what operators have set, and writes down who did it and why.
--
-- KEYS[1]  <prefix>:{control}:document, a hash without a TTL: format (1), version and
--          token of the last change, and the items by their names, see below
-- KEYS[2]  <prefix>:{control}:ends, a sorted set: the customers with an override by
--          its end, in milliseconds of Redis's time
-- KEYS[3]  <prefix>:{control}:log, a stream: one entry a change, whose id is
--          <version>-0; "after" is the token of the change before, 0 if there was no
--          document
-- ARGV[1]  the version of the item that is to be replaced or removed, 0 if there is
--          none
-- ARGV[2]  for how many milliseconds an override holds; 0: it has no end
-- ARGV[3]  a random token, 1 to 999999999999999
-- ARGV[4]  the most overrides that there may be
-- ARGV[5]  about how many entries the log keeps
-- ARGV[6]  the item: "policy", "override:<customer>", or "reset:<customer>", which is
--          only written down
-- ARGV[7]  its new value in JSON; empty: it is removed
-- ARGV[8]  who
-- ARGV[9]  why
--
-- Try it   redis-cli --eval change.lua 'priority:{control}:document' \
--            'priority:{control}:ends' 'priority:{control}:log' , \
--            0 3600000 42 10000 10000 override:acme \
--            '{"value":{"latest":1},"by":"mary","why":"a demo"}' mary 'a demo'
--
-- Reply    {1, version} of the change; {0, version} of the item that is there instead
--          of the one to be replaced, 0 if there is none, and nothing was changed
-- Errors   CORRUPTDOCUMENT: a key holds something else. NEWERDOCUMENT: the document
--          has a later format. TOOMANY: there are ARGV[4] others. ERR: an argument is
--          wrong. Redis's own (NOPERM, READONLY, OOM …). With any of them nothing was
--          changed; but Redis 6.2, which a script cannot ask for rights, may stop where
--          one to HSET, HDEL, HINCRBY, ZADD or ZREM is missing, with the log written.
--
-- An item is "<version> <at> <end> <value>": the version of the document that set it,
-- when that was and when it ends, 0 for never, in milliseconds of Redis's time. The
-- last 100 values of the item "policy" stay in the document as "policy:<version>".

local document, ends, log = KEYS[1], KEYS[2], KEYS[3]
local replaced, lasts, token = ARGV[1] + 0, ARGV[2] + 0, ARGV[3]
local most, entries = ARGV[4] + 0, ARGV[5]
local item, value, who, why = ARGV[6], ARGV[7], ARGV[8], ARGV[9]
local kind, customer = string.match(item, '^(%l+):?(.*)$')
if not (kind == 'policy' or kind == 'override' or kind == 'reset') or who == '' or why == '' then
  return redis.error_reply('ERR the change is not one of an item by somebody for a reason')
end

local corrupt = redis.error_reply('CORRUPTDOCUMENT a key holds something other than the operators\' document')
local function failed(reply)
  if string.find(reply.err, 'wrong kind of value', 1, true) or string.find(reply.err, 'not an integer', 1, true) then
    return corrupt
  elseif string.find(reply.err, 'The user executing the script', 1, true) then -- Redis 6.2's NOPERM
    return redis.error_reply('NOPERM ' .. reply.err)
  end
  return reply
end

-- Where Redis tells rights (7.0 and later), a change that would stop halfway is not begun.
for _, command in ipairs(redis.acl_check_cmd and {
  {'HMGET', document, 'f'}, {'XREVRANGE', log, '+', '-'}, {'ZRANGEBYSCORE', ends, '0', '1'},
  {'ZCOUNT', ends, '0', '1'}, {'XADD', log, '*', 'f', 'v'}, {'HSET', document, 'f', 'v'},
  {'HDEL', document, 'f'}, {'ZADD', ends, '1', 'm'}, {'ZREM', ends, 'm'},
} or {}) do
  if not redis.acl_check_cmd(unpack(command)) then
    return redis.error_reply('NOPERM this user may not run ' .. command[1] .. ' on ' .. command[2])
  end
end

local held = redis.pcall('HMGET', document, 'format', 'version', item, 'policies', 'token')
if held.err then
  return failed(held)
end
if held[1] and held[1] ~= '1' then
  if #held[1] > 15 or not string.find(held[1], '^%d+$') then
    return corrupt
  end
  return redis.error_reply('NEWERDOCUMENT the document has format ' .. held[1] .. ', not 1: use a newer program')
end
for _, i in ipairs({2, 5}) do
  if held[i] and (#held[i] > 15 or not string.find(held[i], '^%d+$')) then
    return corrupt
  end
end
local old, was, old_end = '', 0, 0
if held[3] then
  local version, _, till, text = string.match(held[3], '^(%d+) (%d+) (%d+) (.*)$')
  if not version then
    return corrupt
  end
  old, was, old_end = text, version + 0, till + 0
end
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
if old_end > 0 and old_end <= now then
  old, was = '', 0
end
if was ~= replaced or (value == '' and was == 0 and kind ~= 'reset') then
  return {0, was}
end

local version = (held[2] or 0) + 1
local last = redis.pcall('XREVRANGE', log, '+', '-', 'COUNT', 1)
if last.err then
  return failed(last)
end
if last[1] then -- it may know more than a document that was lost
  version = math.max(version, string.match(last[1][1], '^%d+') + 1)
end
if version >= 1e15 then
  return corrupt
end

-- Overrides that are over make room.
local over = redis.pcall('ZRANGEBYSCORE', ends, '-inf', now, 'LIMIT', 0, 1000)
if over.err then
  return failed(over)
end
if kind == 'override' and value ~= '' and was == 0 then
  local count = redis.pcall('ZCOUNT', ends, '(' .. now, '+inf')
  if type(count) == 'table' then
    return failed(count)
  end
  if count >= most then
    return redis.error_reply('TOOMANY there are ' .. most .. ' already')
  end
end

local till = lasts > 0 and now + lasts or 0
local added = redis.pcall('XADD', log, 'MAXLEN', '~', entries, version .. '-0', 'at', now, 'item', item,
  'old', old, 'new', value, 'end', till, 'who', who, 'why', why, 'token', token, 'after', held[5] or 0)
if type(added) == 'table' and added.err then
  return failed(added)
end
for _, name in ipairs(over) do
  redis.call('HDEL', document, 'override:' .. name)
  redis.call('ZREM', ends, name)
end
redis.call('HSET', document, 'format', 1, 'version', version, 'token', token)
local stored = version .. ' ' .. now .. ' ' .. till .. ' ' .. value
if kind == 'reset' then
  return {1, version}
elseif value == '' then
  redis.call('HDEL', document, item)
else
  redis.call('HSET', document, item, stored)
end
if kind == 'override' then
  if value == '' then
    redis.call('ZREM', ends, customer)
  else
    redis.call('ZADD', ends, till, customer)
  end
elseif kind == 'policy' and value ~= '' then
  local versions = (held[4] or '') .. version .. ' '
  redis.call('HSET', document, 'policy:' .. version, stored)
  local _, n = string.gsub(versions, ' ', '')
  if n > 100 then
    local first, rest = string.match(versions, '^(%S*) (.*)$')
    redis.call('HDEL', document, 'policy:' .. first)
    versions = rest
  end
  redis.call('HSET', document, 'policies', versions)
end
return {1, version}
