-- The clock driver: runs the scripts, word for word, on a clock of the test's,
-- several calls in one go. Each source is put into the body of a function whose
-- parameters shadow KEYS, ARGV and redis; that redis answers TIME from the
-- step, notes every PEXPIRE, and passes all else on.
--
-- A key that the scripts let expire is deleted when its time has come on the
-- test's clock. On the server's own clock it lives for an hour, so that a slow
-- machine does not lose it.
--
-- The verb "quick" works on as many of the keys as it has limits for: a test may keep
-- states where the lists are.
--
-- The verbs "dump" and "rollback" keep what the keys hold and bring it back, as a
-- server does that loses the last writes.
--
-- KEYS  1 to 4 those of the scripts  5 hash: expiries between two runs
--       6 to 9 what the keys held at the last dump
-- ARGV  per step: verb, micros on the test's clock, number of arguments, arguments
-- Reply per step: the script's reply, and a list of expiries in millis: that of
--       the state, for the last step also those of the other keys

local verbs = {
  take = function(KEYS, ARGV, redis)
--[[take]]
  end,
  claim = function(KEYS, ARGV, redis)
--[[claim]]
  end,
  cancel = function(KEYS, ARGV, redis)
--[[cancel]]
  end,
  charge = function(KEYS, ARGV, redis)
--[[charge]]
  end,
  inspect = function(KEYS, ARGV, redis)
--[[inspect]]
  end,
  quick = function(KEYS, ARGV, redis)
--[[quick]]
  end,
  pause = function(KEYS, ARGV, redis)
--[[pause]]
  end,
  resume = function(KEYS, ARGV, redis)
--[[resume]]
  end,
  set = function(KEYS, ARGV, redis)
--[[set]]
  end,
}

local scriptKeys = { KEYS[1], KEYS[2], KEYS[3], KEYS[4] }
local index = { [KEYS[1]] = 1, [KEYS[2]] = 2, [KEYS[3]] = 3, [KEYS[4]] = 4 }
local expires = {} -- millis on the test's clock, by index; from 5 on those of the dump
for k = 1, 8 do
  expires[k] = tonumber(redis.call('HGET', KEYS[5], k) or nil)
end

-- copy lets one set of keys hold what the other holds.
local function copy(from, into)
  for k = 1, 4 do
    local source = from == 0 and KEYS[k] or KEYS[k + 5]
    local target = into == 0 and KEYS[k] or KEYS[k + 5]
    redis.call('DEL', target)
    redis.call('COPY', source, target)
    expires[k + into] = expires[k + from]
  end
end

-- The server tells which keys are not there any more, or lost their expiry by
-- being made anew. It is asked at the end of a run only, as that takes time.
local function expiries()
  local list = {}
  for k = 1, 4 do
    local left = redis.call('PTTL', scriptKeys[k])
    if left < 0 then expires[k] = nil end
    list[k] = left == -2 and 0 or expires[k] or -1
  end
  return list
end

local function at(micros)
  local millis = math.floor(micros / 1000)
  for k = 1, 4 do
    if expires[k] and millis > expires[k] then
      redis.call('DEL', scriptKeys[k])
      expires[k] = nil
    end
  end
  local shadow = { error_reply = redis.error_reply, pcall = redis.pcall }
  shadow.call = function(command, ...)
    if command == 'TIME' then
      return { string.format('%.0f', math.floor(micros / 1000000)), string.format('%.0f', micros % 1000000) }
    elseif command == 'PEXPIRE' then
      local key, ttl = ...
      local done = redis.call(command, ...)
      if done == 1 then -- one in the past deletes the key
        expires[index[key]] = redis.call('PEXPIRE', key, 3600000) == 1 and millis + ttl or nil
      end
      return done
    end
    return redis.call(command, ...)
  end
  return shadow
end

local function message(problem)
  return type(problem) == 'table' and problem.err or tostring(problem)
end

local out = {}
local i = 1
while i <= #ARGV do
  local verb, micros, n = ARGV[i], tonumber(ARGV[i + 1]), tonumber(ARGV[i + 2])
  local args = {}
  for k = 1, n do args[k] = ARGV[i + 2 + k] end
  i = i + 3 + n

  local reply = {}
  local shadow = at(micros)
  if verb == 'lose' then
    redis.call('DEL', unpack(scriptKeys))
    for k = 1, 4 do expires[k] = nil end
  elseif verb == 'dump' then
    copy(0, 4)
  elseif verb == 'rollback' then
    copy(4, 0)
  elseif verb == 'forget' then -- as package doc says: a used ID, to be used anew
    reply = { redis.call('ZREM', KEYS[4], args[1]) }
  elseif verb == 'state' then
    reply[1] = redis.call('HGETALL', KEYS[1])
    for k = 2, 4 do reply[k] = redis.call('ZRANGE', KEYS[k], 0, -1, 'WITHSCORES') end
  else
    local ok
    local keys = scriptKeys
    if verb == 'quick' then
      local width = tonumber(args[4]) == 0 and 6 or 7
      keys = { unpack(scriptKeys, 1, math.min(4, math.max(1, math.floor((n - 4) / width)))) }
    end
    ok, reply = pcall(verbs[verb], keys, args, shadow)
    if not ok then reply = redis.error_reply(message(reply)) end
  end
  out[#out + 1] = { reply, i > #ARGV and expiries() or { expires[1] or 0 } }
end

redis.call('DEL', KEYS[5])
for k, millis in pairs(expires) do redis.call('HSET', KEYS[5], k, millis) end
redis.call('PEXPIRE', KEYS[5], 3600000)
return out
