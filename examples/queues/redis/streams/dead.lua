-- Lists 20 of the documents that were given up.
--
-- KEYS   the stream of those given up
-- ARGV   where to begin: nothing at first, then as the reply before says
-- Reply  {where the next 20 begin, or nothing where there are no more, then their
--        ids, the oldest first}
local start = ARGV[1] == '' and '-' or '(' .. ARGV[1]
local entries = redis.call('XRANGE', KEYS[1], start, '+', 'COUNT', 20)
local reply = {#entries == 20 and entries[20][1] or ''}
for i, entry in ipairs(entries) do
	reply[i + 1] = ''
	for j = 1, #entry[2], 2 do
		if entry[2][j] == 'document' then
			reply[i + 1] = entry[2][j + 1]
		end
	end
end
return reply
