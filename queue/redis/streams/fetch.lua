-- Gives a worker that has nothing in hand one document: of the first level that has
-- any, one whose wait after a failure is over, else one whose worker is lost, else
-- the next one. A worker whose last fetch was answered in vain gets the same again.
--
-- KEYS    the levels' streams in the order in which to try them, then, in the same
--         order, their sorted sets of documents that wait after a failure
-- ARGV    worker, lease in milliseconds, 1 to leave those of lost workers to others
-- Reply   nil where there is none, else {which of the streams, the entry's id, how
--         often it was given to a worker, customer, document, body, traceparent}
-- Errors  WRONGTYPE where a key is no stream, "documents of lists" where a sorted set
--         has those: nothing was taken
-- A stream's group is made where there is none.
local worker, lease, spare = ARGV[1], ARGV[2], ARGV[3] == '1'
local levels = #KEYS / 2

-- in_hand returns {id, worker, idle, tries} of a stream's first entry that a worker
-- has in hand and that XPENDING's further arguments ask for, or nil.
local function in_hand(level, ...)
	local found = redis.pcall('XPENDING', KEYS[level], 'workers', ...)
	if found.err then
		redis.call('XGROUP', 'CREATE', KEYS[level], 'workers', '0', 'MKSTREAM')
		return nil
	end
	return found[1]
end

local function reply(level, entry, tries)
	local field = {}
	for i = 1, #entry[2], 2 do
		field[entry[2][i]] = entry[2][i + 1]
	end
	return {level, entry[1], tries, field.customer or '', field.document or '', field.body or '', field.traceparent or ''}
end

-- claim returns the reply for an entry that is this worker's from now on, or nil
-- where the entry itself was deleted.
local function claim(level, id, tries)
	local entry = redis.call('XCLAIM', KEYS[level], 'workers', worker, 0, id, 'RETRYCOUNT', tries, 'FORCE')[1]
	if entry then
		return reply(level, entry, tries)
	end
	redis.call('XACK', KEYS[level], 'workers', id)
end

local function waited(level, now)
	local later = KEYS[levels + level]
	local due = redis.call('ZRANGEBYSCORE', later, '-inf', now, 'LIMIT', 0, 1)[1]
	while due do
		local id, tries = due:match('^(%d+%-%d+) (%d+)$')
		if not id then
			error(later .. ' has documents of lists')
		end
		redis.call('ZREM', later, due)
		local claimed = claim(level, id, tries + 1)
		if claimed then
			return claimed
		end
		due = redis.call('ZRANGEBYSCORE', later, '-inf', now, 'LIMIT', 0, 1)[1]
	end
end

local function lost(level)
	local entry = in_hand(level, 'IDLE', lease, '-', '+', 1)
	while entry do
		local claimed = claim(level, entry[1], entry[4] + 1)
		if claimed then
			return claimed
		end
		entry = in_hand(level, 'IDLE', lease, '-', '+', 1)
	end
end

local function fresh(level)
	local read = redis.call('XREADGROUP', 'GROUP', 'workers', worker, 'COUNT', 1, 'STREAMS', KEYS[level], '>')
	if read then
		return reply(level, read[1][2][1], 1)
	end
end

for level = 1, levels do
	local entry = in_hand(level, '-', '+', 1, worker)
	local again = entry and claim(level, entry[1], entry[4])
	if again then
		return again
	end
end
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
for level = 1, levels do
	local found = waited(level, now) or not spare and lost(level) or fresh(level)
	if found then
		return found
	end
end
return nil
