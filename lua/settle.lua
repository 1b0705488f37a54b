-- settle: a call was made, and what it used of some limits was not what it had taken. What
-- it used less lets those behind it come earlier; what it used more, later.
--
-- KEYS, ARGV as of leave; spent is what the call used, atMicros when it had its turn, in
--       Redis's time. A limit with spent -1, or with spent as much as cost, is left alone.
-- Reply as of turn, from the sixth on: one list per limit
-- Atomic. Not to be repeated when its reply was lost: it would settle twice. What is
-- refunded is what the bucket of a strict provider still has of it: see line.lua.
-- Errors: BADARG, BADSTATE, WRONGTYPE, STALE; then nothing was changed.

id = ARGV[1]
if not id or id == '' then bad('BADARG', 'id', 'not empty', id) end
read_limits(2)
if problem then return problem end
load_limits()
if problem then return problem end
begin_limits()
for _, l in ipairs(limits) do
  if l.spent >= 0 and l.spent ~= l.cost then l.kind.settle(l) end
end
return save_limits({})
