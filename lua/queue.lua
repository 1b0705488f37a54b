-- queue.lua: the short path of calls that join the queue of a paced limit, or leave it. The caller knows the state,
-- and nothing but the queue changes: no head is due, and nobody books, names a flow or pauses. (Bookings have a
-- span.) All else goes to the
-- rest of the script, which would do the same. As in common.lua, nothing is checked again that the caller knows.

-- queueOf reads the state of such a limit. It returns nil for any other limit, and if nobody
-- waits.
local function queueOf(j)
  local k, n = HEAD + WIDTH * (j - 1), KEYED * (j - 1)
  local known, a, key = ARGV[k + KNOWN], ARGV[k + A], KEYS[n + STATE]
  local terms = ' ' .. (ARGV[RUN] == '' and '-' or ARGV[RUN]) .. ' p ' .. a .. ' ' .. ARGV[k + B]
  if ARGV[k + BACK] ~= '' or sub(known, -#terms) ~= terms then return end
  local f = pcall('HMGET', key, 'plain', 'version', 'seenMicros', 'nextFreeTicketMicros', 'fraction', 'queue', 'pausedUntilMicros',
    'virtual', 'steppedBack', 'kept')
  if f[1] ~= '~' .. known or (f[7] or '0') ~= '0' or (f[8] or '0') ~= '0' or (f[9] or '') ~= '' or (f[10] or '') ~= '' then return end
  local version, seen, free, part = tonumber(f[2]), tonumber(f[3]), tonumber(f[4]), tonumber(f[5] or 0)
  local brought, clock = tonumber(ARGV[k + VERSION]), tonumber(ARGV[k + CLOCK])
  if not (version and seen and free and part and brought and clock and version >= brought) then return end
  if seen > now or (now - seen > STEP or seen % 1 > 0) and clock ~= 0 and not (now - clock <= STEP) then return end -- the clock has stepped
  if floor(now / RENEW) ~= floor(seen / RENEW) then return end -- the keys are renewed
  local total, seq, head, called, since, ends, latest, returned = match(f[6] or '', '^(%d+) (%d+) ([^: ]*:[^: ]*)(%S*) (%d+) 0 (%d+ (%d+)) 0 (%d+)$')
  local places = KEYS[n + PLACES]
  local card = total and pcall('ZCARD', places)
  if type(card) ~= 'number' or card == 0 then return end
  local first = call('ZRANGE', places, 0, 0)[1]
  local beaten = pcall('ZSCORE', KEYS[n + PROCESSES], match(first, '^[^:]*'))
  if beaten and not (tonumber(beaten) and tonumber(beaten) >= now - SILENT) then return end -- the head's process is silent
  return { j = j, key = key, places = places, a = tonumber(a), known = known, version = version, spent = free + part, card = card, first = first,
    total = tonumber(total), seq = tonumber(seq), head = head, called = called, since = tonumber(since), ends = ends, latest = tonumber(latest), returned = returned }
end

-- keep writes the state, and the part of the reply about it.
local function keep(q)
  local k = 4 * q.j - 2
  call('HSET', q.key, 'version', format('%d', q.version + 1), 'seenMicros', format('%d', now), 'queue',
    format('%d %d %s%s %.0f 0 %s 0 %s', q.total, q.seq, q.head, q.called, q.since, q.ends, q.returned))
  reply[k], reply[k + 1], reply[k + 2], reply[k + 3] = q.version + 1, format('%.0f', ceil(q.spent - at)), '~' .. q.known, ''
end
