-- Puts a document that was given up back as a new one. Called again, or by two at the same
-- time, it adds nothing.
--
-- KEYS    the stream of those given up, the list of the level that it is to have
-- ARGV    the entry's id in the first
-- Reply   1, or 0 where it is not there any more
-- Errors  OOM where Redis is full: nothing was changed
local entry = redis.call('XRANGE', KEYS[1], ARGV[1], ARGV[1])[1]
if not entry then
	return 0
end
local field = {}
for i = 1, #entry[2], 2 do
	field[entry[2][i]] = entry[2][i + 1]
end
redis.call('RPUSH', KEYS[2], field.element or '')
redis.call('XDEL', KEYS[1], ARGV[1])
return 1
