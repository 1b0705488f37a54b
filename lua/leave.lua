-- leave: a call that has a turn in several limits, or waits for it, will not be made.
--
-- KEYS, ARGV as of turn, without the first two arguments: 1 id, then for each limit kind,
--       cost, spent, atMicros, width and its arguments
-- Reply one per limit: 1 if the call had something there and left it
-- Atomic. Repeated, it changes nothing more. Permits whose time is over are gone.
-- Errors: BADARG, BADSTATE, WRONGTYPE, STALE; then nothing was changed.

id = ARGV[1]
if not id or id == '' then bad('BADARG', 'id', 'not empty', id) end
read_limits(2)
if problem then return problem end
load_limits()
if problem then return problem end
begin_limits()
local reply = {}
for i, l in ipairs(limits) do reply[i] = l.kind.release(l) and 1 or 0 end
for _, l in ipairs(limits) do l.kind.save(l) end
return reply
