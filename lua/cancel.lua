-- cancel: give tickets back whose calls will not be made, or will be made later.
--
-- KEYS  1 state (hash)  2 waiting  3 free  4 claimed (sorted sets)
-- ARGV  1 intervalMicros  2 burst  3 reachMicros  4 epoch  5 seenMicros
--       6 clockMicros  7 member  8 serial: as for take
--       then four per ticket:
--       cost              permits
--       id                of the ticket; empty for a final ticket that was taken
--                         with keep 0, which goes by epoch and number
--       epoch             of the line that gave the ticket: nothing is changed in
--                         another; 0 with an id: in any
--       number            with an id: 0 to give it back; 1 to keep its place, so that
--                         a final ticket waits under its id again; 2 to keep it only if
--                         others stand behind it, and else to give it back
-- Reply one per ticket:
--       0                 nothing went back: not known, or its permits are gone
--       1                 the permits are in the line again; the ticket waits
-- Atomic over all tickets, which are served in order. Repeated with its serial, a
-- cancel changes nothing more; it only says which tickets keep their place. Without
-- a serial it must not be repeated by number, as that may be somebody else's by then.
-- With one, it gives no number back for a member that the state does not know.
-- Errors: BADARG, BADSTATE, WRONGTYPE, STALE; then nothing was changed.

introduce()
if (#ARGV - 8) % 4 ~= 0 or #ARGV < 12 then
  bad('BADARG', 'tickets', 'groups of cost, id, epoch, number', #ARGV - 8)
end
for i = 9, #ARGV, 4 do
  count(i, 'cost', 1, burst or 1)
  count(i + 2, 'epoch', 0, MOST)
  count(i + 3, 'number', 0, MOST)
end
if problem then return problem end
load()
if problem then return problem end
uses(WAITING, FREE, CLAIMED)
if not fresh then guard() end

local function wait_again(member, cost, copy)
  local held = score(WAITING, member)
  if held then return not dead(held, cost) end
  if copy then return false end
  held = score(CLAIMED, member)
  if not held then return false end
  redis.call('ZREM', CLAIMED, member)
  redis.call('ZADD', WAITING, held, member)
  if held == s.final then sink() end
  return not dead(held, cost) -- if it is, it may live again when later ones leave too
end

-- Of a member that was silent for so long that it is not known any more nobody can
-- say whether this is a copy. By number it would be somebody else's by then.
local forgotten = caller.serial > 0 and caller.member ~= '' and not own

local function cancel(cost, id, epoch, e)
  if id == '' then
    return not (replay or forgotten) and epoch == s.epoch and e <= s.final and giveback(e, cost)
  end
  -- A copy of a call that was carried out changes nothing: others may have a ticket
  -- of that id by now. In another line nobody knows whether it was carried out.
  local copy = replay or epoch > 0 and epoch ~= epochRead
  local member = entry(cost, id)
  if e == 2 and not copy and score(CLAIMED, member) == s.tail then e = 0 end
  if e == 1 or e == 2 then return wait_again(member, cost, copy) end
  if copy then return false end
  for _, list in ipairs({ WAITING, CLAIMED }) do
    local held = score(list, member)
    if held then
      redis.call('ZREM', WAITING, member)
      redis.call('ZREM', CLAIMED, member) -- an earlier ticket of the same id, long gone
      return giveback(held, cost)
    end
  end
  return false
end

-- Without a state there is nothing to give back to.
local reply = {}
for i = 9, #ARGV, 4 do
  local went = not fresh and cancel(tonumber(ARGV[i]), ARGV[i + 1], tonumber(ARGV[i + 2]), tonumber(ARGV[i + 3]))
  reply[#reply + 1] = went and 1 or 0
end
if not fresh then save() end
return reply
