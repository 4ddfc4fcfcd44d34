-- Lists 20 of the documents that were given up.
--
-- KEYS   the list of those given up
-- ARGV   where to begin: nothing at first, then as the reply before says
-- Reply  {where the next 20 begin, or nothing where there are no more, then their
--        ids, the oldest first}
local start = tonumber(ARGV[1]) or 0
local elements = redis.call('LRANGE', KEYS[1], start, start + 19)
local reply = {#elements == 20 and tostring(start + 20) or ''}
for i, element in ipairs(elements) do
	local document = cjson.decode(element).document
	reply[i + 1] = (document == nil or document == cjson.null) and '' or tostring(document)
end
return reply
