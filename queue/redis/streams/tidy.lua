-- Removes workers that are gone and have nothing in hand. Redis would remember them
-- for ever. One that is not gone is remembered again with its next document.
--
-- KEYS   the levels' streams
-- ARGV   the milliseconds after which a worker that was not heard of is gone, then
--        the names of workers that are gone in any case
-- Reply  how many were removed, of all streams together
local gone, removed = {}, 0
for i = 2, #ARGV do
	gone[ARGV[i]] = true
end
for _, stream in ipairs(KEYS) do
	local workers = redis.pcall('XINFO', 'CONSUMERS', stream, 'workers')
	for _, worker in ipairs(workers.err and {} or workers) do
		local field = {}
		for i = 1, #worker, 2 do
			field[worker[i]] = worker[i + 1]
		end
		if field.pending == 0 and (gone[field.name] or field.idle >= tonumber(ARGV[1])) then
			redis.call('XGROUP', 'DELCONSUMER', stream, 'workers', field.name)
			removed = removed + 1
		end
	end
end
return removed
