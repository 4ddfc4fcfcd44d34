-- Gives a worker that has nothing in hand one document: of the first level that has
-- any, one whose wait after a failure is over, or whose worker is lost, else the
-- next one. A worker whose last fetch was answered in vain gets the same again.
--
-- What a worker has in hand is in its level's sorted set, by the end of its lease,
-- as "tries worker element"; what waits after a failure is there as "tries number
-- element".
--
-- KEYS    the levels' lists in the order in which to try them, then, in the same
--         order, their sorted sets, then the hash of what each worker has in hand
-- ARGV    worker (a name without spaces, not a number), lease in milliseconds, 1 to
--         leave those of lost workers to others
-- Reply   nil where there is none, else {which of the lists, its member in the sorted
--         set, how often it was given to a worker, customer, document, body, traceparent}. An
--         element that is no JSON object with one of these is a body.
-- Errors  OOM where Redis is full, WRONGTYPE where a key is no list: nothing was
--         changed
local worker, lease, spare = ARGV[1], ARGV[2], ARGV[3] == '1'
local levels, hands = (#KEYS - 1) / 2, KEYS[#KEYS]
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

local function text(value)
	if type(value) == 'string' then
		return value
	end
	local is_json, json = pcall(cjson.encode, value) -- not a number that is none
	return (value == nil or value == cjson.null or not is_json) and '' or json
end

local function give(level, tries, element)
	local member = tries .. ' ' .. worker .. ' ' .. element
	redis.call('ZADD', KEYS[levels + level], now + lease, member)
	redis.call('HSET', hands, worker, KEYS[level] .. ' ' .. member)
	local is_json, read = pcall(cjson.decode, element)
	local is_document = is_json and type(read) == 'table' and (read.customer or read.document or read.body)
	if not is_document then
		read = {body = element}
	end
	return {level, member, tries, text(read.customer), text(read.document), text(read.body), text(read.traceparent)}
end

local function parts(member)
	local tries, holder, element = member:match('^(%d+) (%S+) (.*)$')
	return tonumber(tries), holder, element
end

-- again returns what this worker has in hand, or nil.
local function again()
	local held = redis.call('HGET', hands, worker)
	for level = 1, held and levels or 0 do
		local list = KEYS[level] .. ' '
		local member = held:sub(#list + 1)
		if held:sub(1, #list) == list and redis.call('ZSCORE', KEYS[levels + level], member) then
			local tries, _, element = parts(member)
			return give(level, tries, element)
		end
	end
end

local function due(level)
	local member = redis.call('ZRANGEBYSCORE', KEYS[levels + level], '-inf', now, 'LIMIT', 0, 1)[1]
	if not member then
		return nil
	end
	local tries, holder, element = parts(member)
	if spare and not holder:find('^%d+$') then
		return nil
	end
	local given = give(level, tries + 1, element)
	redis.call('ZREM', KEYS[levels + level], member)
	if redis.call('HGET', hands, holder) == KEYS[level] .. ' ' .. member then
		redis.call('HDEL', hands, holder)
	end
	return given
end

local function fresh(level)
	local element = redis.call('LINDEX', KEYS[level], 0)
	local given = element and give(level, 1, element)
	if given then
		redis.call('LPOP', KEYS[level]) -- last: an error before it loses nothing
	end
	return given
end

local found = again()
for level = 1, levels do
	found = found or due(level) or fresh(level)
end
return found
