-- Lists the documents that were given up.
--
-- KEYS   the list of those given up
-- Reply  their ids, the oldest first
local documents = {}
for i, element in ipairs(redis.call('LRANGE', KEYS[1], 0, -1)) do
	local document = cjson.decode(element).document
	documents[i] = (document == nil or document == cjson.null) and '' or tostring(document)
end
return documents
