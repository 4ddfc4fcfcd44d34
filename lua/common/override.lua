-- The bounds of an operator's override, if one is in force: of the first of its keys that holds
-- one. A key of another kind is none; a right to read it that is missing is an error.
local earliest, latest, override
for at = first_override, #KEYS, override_step do
  local ruling = redis.pcall('GET', KEYS[at])
  if ruling and ruling.err then
    if not string.find(ruling.err, 'wrong kind of value', 1, true) then
      return ruling
    end
  elseif ruling then
    local how, level, rest = string.match(ruling, '^([<>]?=)([1-9]%d?%d?)(.?)')
    if how and (rest == '' or rest == ' ') then
      level = math.min(level + 0, queue_levels)
      earliest = how == '<=' and 1 or level
      latest = how == '>=' and queue_levels or level
      override = KEYS[at]
      break
    end
  end
end
