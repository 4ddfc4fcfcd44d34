-- Puts documents that were given up back, the oldest first, as if they were new:
--
--     redis-cli --eval putback.lua '{documents}-dead' '{documents}-9' , 100
--
-- KEYS    the stream of those given up, the stream of the level that they are to have
-- ARGV    how many at most
-- Reply   how many there were
-- Errors  OOM where Redis is full: what was not put back is where it was
local entries = redis.call('XRANGE', KEYS[1], '-', '+', 'COUNT', ARGV[1])
for _, entry in ipairs(entries) do
	local field = {}
	for i = 1, #entry[2], 2 do
		field[entry[2][i]] = entry[2][i + 1]
	end
	redis.call('XADD', KEYS[2], '*', 'customer', field.customer or '', 'document', field.document or '',
		'body', field.body or '')
	redis.call('XDEL', KEYS[1], entry[1])
end
return #entries
