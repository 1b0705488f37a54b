-- charge: a process is back that could not reach Redis. What it spent meanwhile
-- is taken from the line, as far as others left it no permits unused; and after an
-- outage the line goes on for everybody at the same moment.
--
-- KEYS  1 state (hash)  2 waiting  3 free  4 claimed (sorted sets)
-- ARGV  1 intervalMicros  2 burst  3 reachMicros  4 epoch  5 seenMicros
--       6 clockMicros  7 member  8 serial: as for take
--       9 spent           permits that the process used without the line
--       10 least          of these, what its own share has not regained: charged
--                         in any case; 0 to spent
--       11 idle           as the last reply of the line said, with its epoch
--       12 awayMicros     for how long the process had no answer
--       13 graceMicros    if nobody called in the second half of that time, all
--                         were away, and nothing is due before so much has passed:
--                         those who come later use their shares until then
--       14 most           charge no more than this
-- Reply epoch, seenMicros, reachMicros, live, idle, resumeMicros, plain,
--       pauseMicros, gen, final, interval, fraction, burst: as of take
-- Atomic. Repeated with its serial, in any order of the copies, it settles only what
-- was spent beyond what was settled under that serial, and `least` is at most that;
-- `most` is for all copies together.
-- Errors: BADARG, BADSTATE, WRONGTYPE, STALE; then nothing was changed.

introduce()
local spent = count(9, 'spent', 0, MOST)
local least = count(10, 'least', 0, spent)
local idle = count(11, 'idle', 0, MOST)
local away = number(12, 'awayMicros', 0)
local grace = math.min(number(13, 'graceMicros', 0), LONGEST_MICROS)
local most = count(14, 'most', 0, MOST)
if #ARGV ~= 14 then bad('BADARG', 'arguments', '14', #ARGV) end
if problem then return problem end
load()
if problem then return problem end
uses(WAITING, FREE, CLAIMED)
begin()

-- The trace holds what copies of this call settled: "<spent> <charged>".
local settled, charged = string.match(replay and trace or '', '^(%d+) (%d+)$')
settled, charged = tonumber(settled or '0'), tonumber(charged or '0')

-- Numbers that nobody could claim meanwhile are late: the first of them is due
-- now, as if it were claimed.
local function catch_up()
  local before = foremost()
  if now <= due(before) + burst * interval then return end
  local late = math.ceil(now - due(before + 1))
  shift(late)
  unused(math.floor(late / interval))
end

-- Where the line moves later, numbers before the final mark that nobody claimed are
-- lost. So these pay before it moves, the free ones first. Returns what is left.
local function pay_with_numbers(debt)
  local function any() return true end
  for _, list in ipairs({ FREE, WAITING }) do
    for _ = 1, SCAN do
      if debt == 0 then break end
      local e, member, size = first(list, dead, any)
      if not e or e > s.final then break end
      local part = math.min(size, debt)
      redis.call('ZREM', list, member)
      if list == WAITING then lose(member, e) end
      if part < size then redis.call('ZADD', FREE, e, entry(size - part, digits(e))) end
      debt = debt - part
    end
  end
  counted()
  return debt
end

-- Permits that nobody took from the line since the process last saw it pay for
-- what it spent.
local function pay()
  local new = math.max(0, spent - settled)
  local before = caller.epoch == epochRead and idle or 0
  local paid = math.min(math.max(0, s.idle - before), new)
  s.idle, moved = s.idle - paid, true
  local debt = math.min(math.max(0, most - charged), math.max(math.min(least, new), new - paid))
  if debt > 0 then
    guard()
    local left = pay_with_numbers(debt)
    if left > 0 then shift(left * interval) end
  end
  if caller.serial > 0 then trace = digits(settled + new) .. ' ' .. digits(charged + debt) end
end

local everybody = fresh or quiet > away / 2
catch_up()
pay()
if everybody and grace > 0 then
  s.resumeMicros = math.ceil(now + grace)
  s.floor = math.max(s.floor, s.final)
  hold()
end
save()
return header({})
