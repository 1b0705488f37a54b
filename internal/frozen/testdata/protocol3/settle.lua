-- settle.lua: callers report what their calls used in fact.
--
-- ARGV  after the arguments of head.lua, per item:
--         limit        index
--         id           "<process>:<number>" of the call. '': permits that the process has
--                      spent without Redis, while it was unreachable
--         cost         what the limit knows of the call: the cost that it had, or what was reported
--                      last; without an id: micros since the outage of the process began
--         used         permits; above or below the cost. "+" before them: a better estimate, from which
--                      permits may come back again; without an id: calls without any limit, of which the
--                      provider may have refused some
--         flow         "<weight>:<flow>" of the call. '': it names none
-- Reply: after the reply of head.lua, per item by how many permits the use of the limit has changed:
-- below 0 if permits came back. '': the call is not known and has used no more than its cost, or
-- was reported before and has no record any more. It is also the answer to a lower use if the first record of the call
-- was lost. A report that is repeated changes nothing. If its record is still there, the answer is that of the first one.

local MOST_USED = 1e12

-- away spends what a process used while Redis was unreachable: see comeBack in outage.go. If no call has used the limit
-- since, other processes may still use their shares, and report them a moment later. So no turn is due for a second. A
-- bucket is counted as empty when that second ends. That covers what all processes use until then. Outages of
-- processes do not begin together, so "since" is the last half of the outage: its first half may still have had calls.
-- If calls had no limit, the provider let through no more of them than its bucket had.
local function away(l, micros, used, unlimited)
  if l.fresh or now - l.seen > micros / 2 then
    l.closed = now + AHEAD
    l.meter.close(l, l.closed)
  end
  if unlimited and l.meter.refills then used = min(used, max(0, ceil(l.meter.left(l)))) end
  if used == 0 or l.meter.refills and now < l.closed then return 0 end
  l.meter.spend(l, used, at)
  l.last = ''
  return used
end

-- settle replaces the cost of a call. Permits beyond the cost always count, also if there is no record of the call any
-- more. Then the record stays, so that a request that is repeated counts once. Its half number says that the first
-- record was lost: nothing comes back from then on, as nobody knows what the bucket has had since. It also returns
-- whether the report is repeated.
local function settle(l, id, cost, used, again)
  if l.kind == 'r' then return l.meter.settle(l, cost, used, nil, id) end
  local was, is = id .. ':' .. format('%.0f', cost), id .. ':' .. format('%.0f', used)
  local record = tonumber(call('ZSCORE', l.log, was))
  if not record and call('ZSCORE', l.log, is) then return used - cost, true end
  if not record and used <= cost then return nil end
  if record then call('ZREM', l.log, was) else record = l.meter.record(l, at) + 0.5 end
  if record == 0.5 or record % 1 > 0 and used < cost then return nil end -- slots come back when calls are done
  local changed = l.meter.settle(l, cost, used, record)
  if used <= cost then is = id .. ':' .. format('%.0f', cost + (changed or 0)) end -- what the process knows, too
  if used > cost or again then call('ZADD', l.log, format('%.1f', record), is) end
  l.logged = true
  return changed
end

for i = OWN + 1, #ARGV, 5 do
  local l, id, cost, used = limit(i), ARGV[i + 1], tonumber(ARGV[i + 2]), tonumber(ARGV[i + 3])
  local settled, repeated
  if l and not l.problem and finite(cost) and used and used >= 0 and used <= MOST_USED and used == floor(used) then
    local again = match(ARGV[i + 3], '^%+')
    if id == '' then settled = away(l, cost, used, again) else settled, repeated = settle(l, id, cost, used, again) end
    local changed = settled and not repeated
    if changed and id ~= '' and l.virtual > 0 then shares().corrected(l, ARGV[i + 4], used - cost) end
    if changed and used < cost and l.card > 0 then
      sooner(l)
      if id ~= '' then tell(l, 'settled') end
    end
  end
  answers[#answers + 1] = { settled or '' }
end
return finish(wake)
