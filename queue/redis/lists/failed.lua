-- Puts a document that has failed aside: for a while, or for good, then with the whole
-- element, for what Retry puts back.
--
-- KEYS    its list, its level's sorted set, the stream of those given up, the hash of
--         what each worker has in hand
-- ARGV    worker, its member in the sorted set, how long it waits in milliseconds
--         (-1: it is given up), why it has failed
-- Reply   1, or 0 where another worker has it, or it is done
-- Errors  OOM where Redis is full: nothing was changed
if not redis.call('ZSCORE', KEYS[2], ARGV[2]) then
	return 0
end
local tries, element = ARGV[2]:match('^(%d+) %S+ (.*)$')
if tonumber(ARGV[3]) >= 0 then
	local time = redis.call('TIME')
	local due = time[1] * 1000 + math.floor(time[2] / 1000) + ARGV[3]
	local number = time[1] * 1000000 + time[2] -- two equal elements are two documents
	local function member()
		return ('%s %.0f %s'):format(tries, number, element)
	end
	while redis.call('ZSCORE', KEYS[2], member()) do
		number = number + 1
	end
	redis.call('ZADD', KEYS[2], due, member())
else
	local is_json, read = pcall(cjson.decode, element)
	if not is_json or type(read) ~= 'table' then
		read = {}
	end
	local function text(value)
		if type(value) == 'string' then
			return value
		end
		local is_value, json = pcall(cjson.encode, value) -- as fetch.lua has it
		return (value == nil or value == cjson.null or not is_value) and '' or json
	end
	redis.call('XADD', KEYS[3], '*', 'customer', text(read.customer), 'document', text(read.document),
		'element', element, 'queue', KEYS[1], 'tries', tries, 'why', ARGV[4])
end
redis.call('ZREM', KEYS[2], ARGV[2])
redis.call('HDEL', KEYS[4], ARGV[1])
return 1
