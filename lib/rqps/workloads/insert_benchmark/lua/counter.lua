-- Counts what a client does of one kind, by seconds, and how long each statement took: one JSON line a second.

local ffi = require("ffi")

local counter = {}

-- Latency buckets: 32 for every doubling, so that a bucket is 2.2 % wide. Bucket b holds 2^(b/32) µs and up.
local BUCKETS_PER_DOUBLING = 32
local LOG_SCALE = BUCKETS_PER_DOUBLING / math.log(2)
local BUCKETS = 40 * BUCKETS_PER_DOUBLING

-- For a client, a kind and the moment at which the step begins. `add` counts a statement by the moment of its end,
-- and `finish` writes what is left.
function counter.new(client, kind, origin)
   local counts = ffi.new("uint32_t[?]", BUCKETS)
   local operations, transactions, retries, found, sum_us, max_us = 0, 0, 0, 0, 0, 0
   local second, second_ends = 0, origin + 1e9

   -- In one piece, so that threads don't mix their lines.
   local function write()
      local buckets = {}
      for bucket = 0, BUCKETS - 1 do
         if counts[bucket] > 0 then
            buckets[#buckets + 1] = ("[%d,%d]"):format(bucket, counts[bucket])
         end
      end
      io.stdout:write(('{"client":%d,"kind":"%s","second":%d,"operations":%.0f,"transactions":%d,"retries":%d,' ..
         '"found":%.0f,"sum_us":%.1f,"max_us":%.1f,"buckets":[%s]}\n'):format(client + 1, kind, second, operations,
         transactions, retries, found, sum_us, max_us, table.concat(buckets, ",")))
      io.stdout:flush()
      ffi.fill(counts, ffi.sizeof(counts))
      operations, transactions, retries, found, sum_us, max_us = 0, 0, 0, 0, 0, 0
      second, second_ends = second + 1, second_ends + 1e9
   end

   local function add(at, latency_us, did, refused, rows)
      while at >= second_ends do
         write()
      end
      local bucket = latency_us < 1 and 0 or math.floor(math.log(latency_us) * LOG_SCALE)
      if bucket >= BUCKETS then bucket = BUCKETS - 1 end
      counts[bucket] = counts[bucket] + 1
      transactions = transactions + 1
      operations = operations + did
      retries = retries + refused
      found = found + rows
      sum_us = sum_us + latency_us
      if latency_us > max_us then max_us = latency_us end
   end

   local function finish(at)
      while at >= second_ends do
         write()
      end
      if transactions > 0 then
         write()
      end
   end

   return {add = add, finish = finish}
end

return counter
