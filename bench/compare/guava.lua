-- What Guava's SmoothBursty does, as one script: stored permits, and the moment at
-- which the next one is free. Nothing is done for lost replies, lost data, clock
-- steps, numbers that go back, or calls that belong together.
--
-- KEYS  1 state (hash)
-- ARGV  1 intervalMicros  2 burst  3 ttlMillis
-- Reply waitMicros
local interval, burst = tonumber(ARGV[1]), tonumber(ARGV[2])
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local state = redis.call('HMGET', KEYS[1], 'stored', 'free')
local stored, free = tonumber(state[1] or burst), tonumber(state[2] or now)
if now > free then
  stored, free = math.min(burst, stored + (now - free) / interval), now
end
local wait, used = free - now, math.min(stored, 1)
redis.call('HSET', KEYS[1], 'stored', stored - used, 'free', free + (1 - used) * interval)
redis.call('PEXPIRE', KEYS[1], ARGV[3])
return math.ceil(wait)
