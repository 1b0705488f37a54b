-- beat.lua: the heartbeat of a process, for one name. It counts the living, finds the dead,
-- and registers the limit: where those of the living differ, the slowest is in force. What
-- the process tells of itself is kept for people, and nobody else reads it.
--
-- KEYS  1 processes (sorted set: name -> last beat; of the dead: less than 0)
--       2 limits (hash: name -> "<pace> <limit>", and what is in force)
--       3 reports (hash: name -> what it tells of itself; of the dead, too, for ten minutes)
-- ARGV  1 nowMicros    '': Redis's TIME
--       2 process      without spaces and colons
--       3 pace         of its limit, calls per second: what slower means
--       4 limit        its text; '': the process needs the name no more, and counts as dead
--       5 deadMicros   whoever is silent for so long is dead
--       6 channel      for news; '': none
--       7 report       what the process tells of itself; '': nothing
-- Reply nowMicros; 1 if the process was known, be it as dead; how many live; rank and text of the limit
--       that is in force; what tells the server from others, '' if the user may not know it

local call, format = redis.call, string.format
local PROCESSES, LIMITS, REPORTS = KEYS[1], KEYS[2], KEYS[3]
local MOST, KEEP = 64, 600000000
local now, me, pace, silence = tonumber(ARGV[1]), ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[5])
if not now then
  local t = call('TIME')
  now = t[1] * 1000000 + t[2]
end
if not (me and me ~= '' and not string.find(me, '[ :]') and pace and pace > 0 and silence and silence > 0 and ARGV[6] and ARGV[7]) then
  return redis.error_reply('BADARG process, pace, deadMicros: want a name and numbers above 0, got ' .. tostring(me) .. ', ' ..
    tostring(ARGV[3]) .. ', ' .. tostring(ARGV[5]))
end
local function tell(...)
  if ARGV[6] ~= '' then redis.pcall('PUBLISH', ARGV[6], table.concat({ ... }, ' ')) end
end
local function micros(x) return format('%.0f', x) end

local known = call('ZSCORE', PROCESSES, me)
local state = call('HMGET', LIMITS, ' beat', ' since', ' rank', ' limit', me)
local last, since, rank, ruling = tonumber(state[1] or 0), tonumber(state[2] or 0), tonumber(state[3] or 0), state[4]
-- Nobody is dead where everybody was silent: Redis stood still, or its clock jumped.
if last == 0 or now - last > silence / 2 or now < last then since = now end

-- Beats of later are from before the clock stepped back. Who lives beats again.
for _, process in ipairs(call('ZRANGEBYSCORE', PROCESSES, '(' .. micros(now), '+inf', 'LIMIT', 0, MOST)) do
  call('ZADD', PROCESSES, micros(now), process)
end
local changed = false
if now - since >= silence then
  for _, process in ipairs(call('ZRANGEBYSCORE', PROCESSES, '(0', '(' .. micros(now - silence), 'LIMIT', 0, MOST)) do
    if process ~= me then
      call('ZADD', PROCESSES, micros(-now), process)
      call('HDEL', LIMITS, process)
      changed = true
      tell('dead', process)
    end
  end
end
local leaves = ARGV[4] == ''
if leaves then
  if known then call('ZADD', PROCESSES, micros(-now), me) end
  changed = call('HDEL', LIMITS, me) == 1 or changed
else
  call('ZADD', PROCESSES, micros(now), me)
end
for _, process in ipairs(call('ZRANGEBYSCORE', PROCESSES, micros(-now + KEEP), '(0', 'LIMIT', 0, MOST)) do
  call('ZREM', PROCESSES, process)
  call('HDEL', REPORTS, process)
end
if ARGV[7] ~= '' and (known or not leaves) then call('HSET', REPORTS, me, ARGV[7]) end

local mine = ARGV[3] .. ' ' .. ARGV[4]
if not leaves and state[5] ~= mine then
  call('HSET', LIMITS, me, mine)
  changed = true
end
if changed or not ruling then
  local slowest, text = math.huge, nil
  local all = call('HGETALL', LIMITS)
  for i = 1, #all, 2 do
    local theirs, limit = string.match(all[i + 1], '^(%S+) (.*)$')
    theirs = tonumber(theirs)
    if string.sub(all[i], 1, 1) ~= ' ' and theirs and (theirs < slowest or theirs == slowest and limit < text) then
      slowest, text = theirs, limit
    end
  end
  if text and text ~= ruling then
    rank, ruling = rank + 1, text
    tell('limit', rank, text)
  end
end
if not ruling then return { now, known and 1 or 0, 0, rank, '', '' } end -- nobody was here
call('HSET', LIMITS, ' beat', micros(now), ' since', micros(since), ' rank', rank, ' limit', ruling)
local life = micros(math.ceil((silence + KEEP) / 1000))
call('PEXPIRE', PROCESSES, life)
call('PEXPIRE', LIMITS, life)
call('PEXPIRE', REPORTS, life)
local alive = call('ZCOUNT', PROCESSES, micros(now - silence), '+inf')
local info = redis.pcall('INFO', 'server')
-- The first 12 digits of it: what a hash keeps of it is packed up to 64 bytes only.
local run = type(info) == 'string' and string.match(info, 'run_id:(%x+)') or ''
run = string.sub(run, 1, 12)
return { now, known and 1 or 0, alive, rank, ruling, run }
