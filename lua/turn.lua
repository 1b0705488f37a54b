-- turn: a call that needs permits of several limits, of any kinds, asks for its turn: the
-- first moment at which all of them let it through. It gets the permits of all, or of none.
--
-- KEYS  four for each limit, in one slot: those of take. (Of limits that are not paced the
--       third is a log.)
-- ARGV  1 boundMicros     turns up to this are final; those further away are waited for
--       2 maxWaitMicros   refuse, and keep nothing, beyond this; -1: beyond the longest line
--       3 id              of the call; not empty
--       then for each limit
--       kind              paced, quota, rolling or warming
--       cost              permits
--       spent             0 where the cost will be settled; else -1
--       atMicros          0
--       width             how many arguments come now:
--         paced           the first eight of take; the serial is 0
--         quota           permits (per window), marginMicros, known, and moments at which
--                         windows begin and end, in Redis's time: the one before, that of
--                         now and some that come
--         rolling         permits, windowMicros, known
--         warming         intervalMicros, periodMicros, known
--       known is the text that the last reply had for the limit; empty: there was none. It
--       counts where Redis lost its data.
-- Reply now               Redis's time in micros
--       status            0 refused   would wait longer than maxWaitMicros, or costs more
--                                     than the burst that is in force
--                         1 final     sleep the wait, then call
--                         2 waiting   ask again under the id shortly before the wait ends
--                         3 windows   the moments of a quota are not those around now:
--                                     nothing was changed; ask again with others
--       waitMicros        until the turn, rounded up
--       slackMicros       for how long after that it can be used
--       holder            which limit the call waits for longest: 1 is the first; 0: none
--       then for each limit a list: of a paced one its number, and the thirteen integers
--       that the reply of take begins with; of others 0 or 1, and what is known
-- Atomic. An id that has a turn gets the same again, as long as it can be used. While it
-- waits, a call stands only in the limits that hold it back: in the others it is let
-- through when its turn has come. There it takes what nobody waits for, or the number of
-- somebody who waits under one of the same cost, who gets another.
-- Errors: BADARG, BADSTATE, WRONGTYPE, STALE; then nothing was changed.

local bound = number(1, 'boundMicros', -1)
local most = number(2, 'maxWaitMicros', -1)
id = ARGV[3]
if not id or id == '' then bad('BADARG', 'id', 'not empty', id) end
read_limits(4)
if problem then return problem end
load_limits()
if problem then return problem end
for _, l in ipairs(limits) do
  if l.stale then return { now, 3, 0, 0, 0 } end
end
begin_limits()

local reply = { now, 0, 0, 0, 0 }
local function answer(status, wait, slack, holder)
  reply[2], reply[3], reply[4], reply[5] = status, math.min(math.ceil(wait), LONGEST_MICROS), slack, holder
  return save_limits(reply)
end

local function release()
  for _, l in ipairs(limits) do l.kind.release(l) end
end

-- Who has waited does not stand behind those who wait in another limit.
local waited = false
for _, l in ipairs(limits) do
  if l.kind.resume then l.kind.resume(l, bound) end
  waited = waited or l.own or l.kept
end
for i, l in ipairs(limits) do
  if waited then l.ahead = 0 end
  if l.kind.exceeds(l) then
    release()
    return answer(0, LONGEST_MICROS, 0, i)
  end
end

-- search finds a moment that suits all limits: each has made its choice for that one. A
-- limit whose permits can be used only when they are due may not suit another of that sort,
-- ever; then they try harder to meet. The last result is whether they did.
local ROUNDS = { 4, 4, 8 }
local function search()
  local at, holder
  for way = 1, #ROUNDS do
    at, holder = now, 0
    for _ = 1, ROUNDS[way] do
      local before = at
      for i, l in ipairs(limits) do
        local t = l.kind.earliest(l, at, way)
        if t > at then at, holder = t, i end
      end
      if at == before then return at, holder, true end
      if at - now > LONGEST_MICROS then return at, holder, false end
    end
  end
  return at, holder, false
end

local at, holder, met = search()
local wait = at - now
if met and wait <= math.max(0, bound) and (most < 0 or wait <= most) and not (bound < 0) then
  local slack = LONGEST_MICROS
  for _, l in ipairs(limits) do
    l.kind.commit(l, at)
    slack = math.min(slack, l.kind.latest(l, at) - at)
  end
  return answer(1, wait, math.max(0, math.floor(slack)), holder)
end

-- It waits where its turn comes last, and where it comes hardly earlier.
local CLOSE_MICROS = 1000000
local latest = now
for i, l in ipairs(limits) do
  l.turn = l.kind.alone(l)
  if l.turn > latest then latest, holder = l.turn, i end
end
latest = math.max(latest, at)
wait = latest - now
if wait > (most < 0 and LONGEST_MICROS or math.min(most, LONGEST_MICROS)) then
  release()
  return answer(0, wait, 0, holder)
end
for i, l in ipairs(limits) do
  if i == holder or l.turn >= latest - CLOSE_MICROS and l.turn > now then
    l.kind.hold(l)
  else
    l.kind.release(l)
  end
end
return answer(2, wait, 0, holder)
