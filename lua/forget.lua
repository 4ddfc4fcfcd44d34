-- Copies the log without one customer's entries, some entries a call, and in the last
-- call puts the copy in the log's place. XDEL would not do: it only marks an entry, whose
-- bytes stay in Redis's memory and snapshots until a hundred neighbors are deleted too.
--
-- KEYS[1]  <prefix>:{control}:log, the stream that change.lua explains
-- KEYS[2]  <prefix>:{control}:log-copy, a stream: the copy so far
-- KEYS[3]  <prefix>:{control}:log-copying, a string: "<token> <id> <id>", of who copies,
--          the last entry that was read, and the last one that was copied. Both keys have
--          a TTL of two seconds from each call on: what a crash leaves is gone then.
-- ARGV[1]  a random token, the same in each call
-- ARGV[2]  how many entries a call reads
-- ARGV[3]  the version of the change that forgets: entries of later changes stay
-- ARGV[4]  the customer
--
-- Reply    {1}: done. {0}: call again. {-1}: somebody else copies; call again later.
-- Errors   Redis's own (WRONGTYPE, NOPERM, READONLY, OOM …). With any of them the log is
--          as it was.
--
-- Try it   redis-cli --eval forget.lua 'priority:{control}:log' \
--            'priority:{control}:log-copy' 'priority:{control}:log-copying' , 42 200 17 acme

local log, copy, copying = KEYS[1], KEYS[2], KEYS[3]
local token, most, version, customer = ARGV[1], ARGV[2] + 0, ARGV[3] + 0, ARGV[4]
local call, ttl = redis.call, 2000

-- try returns the error of a command that Redis refuses, and leaves no copy then.
local function try(...)
  local reply = redis.pcall(...)
  if type(reply) == 'table' and reply.err then
    redis.pcall('UNLINK', copy)
    return reply
  end
end

local owner, read, copied = string.match(call('GET', copying) or '', '^(%S+) (%S+) (%S+)$')
if owner and owner ~= token then
  return {-1}
end
local last = owner and call('XREVRANGE', copy, '+', '-', 'COUNT', 1)[1]
if not owner or (last and last[1] or '-') ~= copied then -- it begins, or Redis evicted the copy
  call('UNLINK', copy)
  read, copied = nil, '-'
end

local entries = call('XRANGE', log, read and '(' .. read or '-', '+', 'COUNT', most)
for _, entry in ipairs(entries) do
  local id, fields, named = entry[1], entry[2], false
  for i = 1, #fields, 2 do
    named = named or fields[i] == 'item' and
      (fields[i + 1] == 'override:' .. customer or fields[i + 1] == 'reset:' .. customer)
  end
  if not named or string.match(id, '^%d+') + 0 > version then
    local refused = try('XADD', copy, id, unpack(fields))
    if refused then
      return refused
    end
    copied = id
  end
  read = id
end
if #entries == most then
  return try('PEXPIRE', copy, ttl) or try('SET', copying, token .. ' ' .. read .. ' ' .. copied, 'PX', ttl) or {0}
elseif copied == '-' then
  call('UNLINK', log, copying)
  return {1}
end
return try('PERSIST', copy) or try('RENAME', copy, log) or try('UNLINK', copying) or {1}
