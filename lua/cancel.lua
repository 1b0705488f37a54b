-- cancel: give tickets back whose calls will not be made, or will be made later.
--
-- KEYS  1 state (hash)  2 waiting  3 free  4 claimed (sorted sets)
-- ARGV  1 intervalMicros  2 burst: as for take
--       then four per ticket:
--       cost              permits
--       id                of the ticket; empty for a final ticket that was taken
--                         with keep 0, which goes by epoch and number
--       epoch             from the reply that gave the number (0 with an id)
--       number            with an id: 0 to give it back; 1 to keep its place, so that
--                         a final ticket waits under its id again
-- Reply one per ticket:
--       0                 nothing went back: not known, or its permits are gone
--       1                 the permits are in the line again; the ticket waits
-- Atomic over all tickets, which are served in order. By id, a repeated cancel
-- returns nothing more. By number it must not be repeated: the number may be
-- somebody else's by then.
-- Errors: BADARG, BADSTATE, WRONGTYPE; then nothing was changed.

limit()
if (#ARGV - 2) % 4 ~= 0 or #ARGV < 6 then
  bad('BADARG', 'tickets', 'groups of cost, id, epoch, number', #ARGV - 2)
end
for i = 3, #ARGV, 4 do
  count(i, 'cost', 1, burst or 1)
  count(i + 2, 'epoch', 0, 9007199254740991)
  count(i + 3, 'number', 0, 9007199254740991)
end
if problem then return problem end
load(-LONGEST_MICROS)
if problem then return problem end
uses(WAITING, FREE, CLAIMED)

local function wait_again(member, cost)
  local held = score(WAITING, member)
  if held then return not dead(held, cost) end
  held = score(CLAIMED, member)
  if not held then return false end
  redis.call('ZREM', CLAIMED, member)
  redis.call('ZADD', WAITING, held, member)
  if held == s.final then sink() end
  return not dead(held, cost) -- if it is, it may live again when later ones leave too
end

local function cancel(cost, id, epoch, e)
  if id == '' then
    return epoch == s.epoch and e <= s.final and giveback(e, cost)
  end
  local member = entry(cost, id)
  if e == 1 then return wait_again(member, cost) end
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
for i = 3, #ARGV, 4 do
  local went = not fresh and cancel(tonumber(ARGV[i]), ARGV[i + 1], tonumber(ARGV[i + 2]), tonumber(ARGV[i + 3]))
  reply[#reply + 1] = went and 1 or 0
end
if not fresh then save() end
return reply
