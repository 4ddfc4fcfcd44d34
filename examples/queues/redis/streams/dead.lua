-- Lists the documents that were given up.
--
-- KEYS   the stream of those given up
-- Reply  their ids, the oldest first
local documents = {}
for i, entry in ipairs(redis.call('XRANGE', KEYS[1], '-', '+')) do
	documents[i] = ''
	for j = 1, #entry[2], 2 do
		if entry[2][j] == 'document' then
			documents[i] = entry[2][j + 1]
		end
	end
end
return documents
