-- Replaces the policies that the fleet's workers follow, and records who did it and why.
--
-- KEYS[1]  <prefix>:{control}:policies, a string, a JSON object: "version", which goes up by
--          one with each change; "changed", when that was, in milliseconds of Redis's
--          time; "at", "by" and "why": when, by whom and why the policies were set, which an
--          import keeps; "policies": the policies, or null if they were withdrawn
-- KEYS[2]  <prefix>:{control}:log, a stream: who changed what. Its ids are Redis's time.
-- ARGV[1]  the version to be replaced; 0: there are no policies yet; -1: any
-- ARGV[2]  a version that the new one must exceed, or 0
-- ARGV[3]  when the policies were set, in milliseconds; 0: now
-- ARGV[4]  for how many milliseconds the log keeps an entry
-- ARGV[5]  about how many entries it keeps at most; of policies longer than 1.6 KB fewer,
--          16 MB divided by their length
-- ARGV[6]  who changes the policies
-- ARGV[7]  why
-- ARGV[8]  {"by":…,"why":…,"policies":…}
--
-- Reply    {1, version} of the new policies; {0, version} of those that are there instead of
--          ARGV[1], and nothing was changed
-- Errors   CORRUPT: KEYS[1] is not a string, or KEYS[2] not a stream. NEWER: a later version
--          of the module wrote KEYS[1]. Redis's own (NOPERM, READONLY, OOM …). With any of
--          them nothing was changed, except that without a right to a command here those
--          before it have run.
--
-- Try it   redis-cli --eval policies.lua 'priority:{control}:policies' 'priority:{control}:log' , \
--            -1 0 0 7776000000 10000 mary 'a test' '{"by":"mary","why":"a test","policies":null}'
--
-- Policies that cannot be read count as version 0. A later format begins with {"format":.

local key, log, replaces, above, at = KEYS[1], KEYS[2], ARGV[1] + 0, ARGV[2] + 0, ARGV[3]
local keeps, most, who, why, value = ARGV[4], ARGV[5], ARGV[6], ARGV[7], ARGV[8]

local held = redis.pcall('GET', key)
if type(held) == 'table' then
  if string.find(held.err, 'wrong kind of value', 1, true) then
    return redis.error_reply('CORRUPT ' .. key .. ' is not a string')
  end
  return held
elseif held and string.find(held, '^{"format":') then
  return redis.error_reply('NEWER a later version of the module wrote ' .. key)
end
local version = (string.match(held or '', '^{"version":(%d+),') or 0) + 0
if version >= 1e13 then
  version = 0
end
if replaces >= 0 and replaces ~= version then
  return {0, version}
end

local time = redis.call('TIME')
local now = string.format('%d', time[1] * 1000 + math.floor(time[2] / 1000))
if at == '0' then
  at = now
end
version = string.format('%d', math.max(version, above) + 1)
local new = '{"version":' .. version .. ',"changed":' .. now .. ',"at":' .. at .. ',' .. string.sub(value, 2)
most = math.min(most + 0, math.floor(16e6 / #new))
local entry = redis.pcall('XADD', log, 'MAXLEN', '~', most, '*', 'kind', 'policies', 'by', who, 'why', why, 'value', new)
if entry.err then
  if string.find(entry.err, 'wrong kind of value', 1, true) then
    return redis.error_reply('CORRUPT ' .. log .. ' is not a stream')
  end
  return entry
end
redis.call('XTRIM', log, 'MINID', '=', string.format('%d', now - keeps))
redis.call('PEXPIRE', log, keeps)
redis.call('SET', key, new)
return {1, version + 0}
