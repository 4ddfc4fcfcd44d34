    -- How many documents are pending when a document is due, before the last load and in a flood,
    -- and how many of them the counted ones lack. Those whose lease ends before are done by then.
    -- One with a delay also sees those that are due soon after it, for as long as its delay, a lease
    -- at most: else a flood that is submitted latest first would see nothing of itself.
    local ordinary, flood, uncounted = 0, 0, 0
    local to = due + min(due - now, lease)
    if all > 0 then
      local bound = format('%d', 256 * (to + 1)) -- which no score is, as levels begin at 1
      ordinary = call('ZCOUNT', set, format('%d', 256 * max(due - lease, lost)), bound)
      if ordinary < all then
        flood = call('ZCOUNT', set, '-' .. bound, format('-%d', 256 * (due - longest_lease)))
      end
      if counted_to then
        local from = format('%d', 256 * max(counted_to + 1, due - day))
        uncounted = call('ZCOUNT', set, from, bound)
        if ordinary < all then
          uncounted = uncounted + call('ZCOUNT', set, '-' .. bound, '-' .. from)
        end
      end
    end
