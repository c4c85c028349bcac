-- What every step shares: options, tables, statements, and the loop that measures.
--
-- A step's script declares its statements and defines event(), which does one transaction. Each thread counts its
-- transactions and their latencies a second and writes one JSON line for it, so that nothing is shared between
-- threads and nothing but counting is done while the clock runs. The first thread also writes the origin of the
-- measured part on CLOCK_MONOTONIC, by which whoever observes reads the counters at the step's two ends.

local ffi = require("ffi")

ffi.cdef [[
typedef struct { int64_t s; int64_t ns; } rqps_time;
int clock_gettime(int clock, rqps_time *time);
int usleep(unsigned int us);
]]

local rqps = {}

-- Latency buckets: 32 for every doubling, so that a bucket is 2.2 % wide. Bucket b holds 2^(b/32) µs and up.
local BUCKETS_PER_DOUBLING = 32
local LOG_SCALE = BUCKETS_PER_DOUBLING / math.log(2)
local BUCKETS = 32 * BUCKETS_PER_DOUBLING

sysbench.cmdline.options = {
   tables = {"Number of tables", 1},
   table_size = {"Rows of each table", 10000},
   warmup_seconds = {"Seconds before the measured part", 0},
   measured_seconds = {"Seconds of the measured part", 10},
   prepared = {"Use prepared statements", true},
   index_first = {"Create the secondary index before the rows are loaded, not after", false},
   statements = {"One transaction: its statements, with ; between them", ""},
   whole = {"Begin and end the measured part with a transaction, so that none counts in part", false},
   counted_transactions = {"Do so many, at a signal, instead of measuring by the clock; 0 is by the clock", 0},
   counted_warmup = {"Transactions of each thread before those", 0},
   zipf = {"Exponent of Zipf's law, by which ids are drawn; 0 draws all alike", 0.0},
}

-- ---------------------------------------------------------------------------------------------------------------
-- Tables
-- ---------------------------------------------------------------------------------------------------------------

local GROUP = "###########"

-- The form of `groups` groups of eleven random digits, with dashes between.
function rqps.form(groups)
   return GROUP .. string.rep("-" .. GROUP, groups - 1)
end

function rqps.table_name(number)
   return "sbtest" .. number
end

function rqps.random_table()
   return sysbench.rand.uniform(1, sysbench.opt.tables)
end

-- An id of a row that is there, or a value of k: both have the same range.
function rqps.random_id()
   return sysbench.rand.default(1, sysbench.opt.table_size)
end

-- Draws 1 to n, n as often as 1 / n^exponent says, by inversion of the integral and rejection (Hörmann and Derflinger,
-- 1996). sysbench has it since 1.1 only.
local function zipf(exponent, n)
   local rest = 1 - exponent
   local function density(at) return at ^ -exponent end
   local function integral(at) return (at ^ rest - 1) / rest end
   local function inverse(area) return (1 + area * rest) ^ (1 / rest) end
   local from, to = integral(1.5) - 1, integral(n + 0.5)
   local sure = 2 - inverse(integral(2.5) - density(2)) -- so near to a whole number nothing is refused
   return function()
      while true do
         local area = to + sysbench.rand.uniform_double() * (from - to)
         local at = inverse(area)
         local drawn = math.max(1, math.min(n, math.floor(at + 0.5)))
         if drawn - at <= sure or area >= integral(drawn + 0.5) - density(drawn) then
            return drawn
         end
      end
   end
end

-- ---------------------------------------------------------------------------------------------------------------
-- Statements
-- ---------------------------------------------------------------------------------------------------------------

local connection

local function prepared(parsed)
   local makers, values = parsed.makers, {}
   local statement = connection:prepare(table.concat(parsed.text, "?"))
   for i, maker in ipairs(makers) do
      values[i] = type(maker) == "string" and statement:bind_create(sysbench.sql.type.CHAR, #maker + 1)
         or statement:bind_create(sysbench.sql.type.INT)
   end
   if #values > 0 then
      statement:bind_param(unpack(values))
   end
   return function()
      for i = 1, #values do
         local maker = makers[i]
         if type(maker) == "string" then
            values[i]:set_rand_str(maker)
         else
            values[i]:set(maker())
         end
      end
      statement:execute()
   end
end

local function as_text(parsed)
   local makers, pieces = parsed.makers, {}
   for i, text in ipairs(parsed.text) do
      local opens = type(makers[i]) == "string" and "'" or ""
      local closes = type(makers[i - 1]) == "string" and "'" or ""
      pieces[2 * i - 1] = closes .. text .. opens
   end
   return function()
      for i = 1, #makers do
         local maker = makers[i]
         pieces[2 * i] = type(maker) == "string" and sysbench.rand.string(maker) or maker()
      end
      connection:query(table.concat(pieces))
   end
end

-- The function that does a statement. It is given as text around its values and what makes each of these: a function
-- that gives a number, or the form of a random text.
function rqps.statement(parsed)
   -- No server prepares BEGIN; the driver would send it as text after asking in vain.
   return sysbench.opt.prepared and parsed.text[1] ~= "BEGIN" and prepared(parsed) or as_text(parsed)
end

function thread_init(thread)
   connection = sysbench.sql.driver():connect()
   if sysbench.opt.zipf > 0 then
      rqps.random_id = zipf(sysbench.opt.zipf, sysbench.opt.table_size)
   end
   rqps.declare(thread)
end

function thread_done()
   connection:disconnect()
end

-- ---------------------------------------------------------------------------------------------------------------
-- Measuring
-- ---------------------------------------------------------------------------------------------------------------

local time = ffi.new("rqps_time[1]")

-- Nanoseconds on CLOCK_MONOTONIC.
local function now()
   ffi.C.clock_gettime(1, time)
   return tonumber(time[0].s) * 1e9 + tonumber(time[0].ns)
end

local counts = ffi.new("uint32_t[?]", BUCKETS)
local transactions, retries, sum_us, max_us = 0, 0, 0, 0

local function count(latency_us)
   local bucket = latency_us < 1 and 0 or math.floor(math.log(latency_us) * LOG_SCALE)
   if bucket >= BUCKETS then bucket = BUCKETS - 1 end
   counts[bucket] = counts[bucket] + 1
   transactions = transactions + 1
   sum_us = sum_us + latency_us
   if latency_us > max_us then max_us = latency_us end
end

-- Writes what was counted in a second, in one piece so that threads don't mix their lines, and starts again.
local function write_second(thread, second)
   local buckets = {}
   for bucket = 0, BUCKETS - 1 do
      if counts[bucket] > 0 then
         buckets[#buckets + 1] = ("[%d,%d]"):format(bucket, counts[bucket])
      end
   end
   io.stdout:write(('{"thread":%d,"second":%d,"transactions":%d,"retries":%d,"sum_us":%.1f,"max_us":%.1f,"buckets":[%s]}\n')
      :format(thread, second, transactions, retries, sum_us, max_us, table.concat(buckets, ",")))
   io.stdout:flush()
   ffi.fill(counts, ffi.sizeof(counts))
   transactions, retries, sum_us, max_us = 0, 0, 0, 0
end

-- One transaction; again from its start if the server refused it for a reason that goes away, such as a deadlock.
-- Any other error ends us. sysbench's own loop counts the statements that were done before a refusal; this one does not.
local function transaction(thread)
   while true do
      local done, problem = pcall(event, thread)
      if done then
         return
      end
      if type(problem) ~= "table" or problem.errcode ~= sysbench.error.RESTART_EVENT then
         error(problem, 0)
      end
      retries = retries + 1
   end
end

-- Writes a moment, in nanoseconds of CLOCK_MONOTONIC.
local function write_moment(name, thread, moment)
   io.stdout:write(('{"%s":%.0f,"thread":%d}\n'):format(name, moment, thread))
   io.stdout:flush()
end

-- Seconds before the origin are the warm-up and are below zero. Where
-- transactions are to be whole, nothing is done before the origin, and the last one may end after the measured seconds.
local function run_by_the_clock(thread)
   local whole = sysbench.opt.whole
   local origin = now() + sysbench.opt.warmup_seconds * 1e9
   local end_ns = origin + sysbench.opt.measured_seconds * 1e9
   if thread == 0 then
      write_moment("origin_ns", thread, origin)
   end
   if whole then
      ffi.C.usleep(math.max(0, (origin - now()) / 1e3))
   end
   local second = whole and 0 or -sysbench.opt.warmup_seconds
   local last = whole and math.huge or sysbench.opt.measured_seconds - 1
   local second_ends = origin + (second + 1) * 1e9
   local from = now()
   while second <= last do
      transaction(thread)
      local to = now()
      local latency_us = (to - from) / 1e3
      from = to
      while to >= second_ends and second <= last do
         write_second(thread, second)
         second = second + 1
         second_ends = second_ends + 1e9
         from = now() -- what writing took is no transaction's
      end
      if second <= last then -- one that ends after the measured part is not in it
         count(latency_us)
      end
      if whole and to >= end_ns then
         write_second(thread, second)
         write_moment("ended_ns", thread, to)
         io.stdin:read() -- until our observer has read the counters of all threads, and ends our input
         return
      end
   end
   ffi.C.usleep(100000) -- the counters of this thread are read now, and go with it
end

-- A number of transactions instead of seconds, the same on every server however slow, shared out among the threads.
-- They begin when our observer writes a line for each thread, and it closes our input when it has read what they cost.
local function run_counted(thread)
   for _ = 1, sysbench.opt.counted_warmup do
      transaction(thread)
   end
   write_moment("ready_ns", thread, now())
   io.stdin:read()
   transactions, retries, sum_us, max_us = 0, 0, 0, 0
   local all, threads = sysbench.opt.counted_transactions, sysbench.opt.threads
   local from = now()
   for _ = 1, math.floor(all / threads) + (thread < all % threads and 1 or 0) do
      transaction(thread)
      local to = now()
      count((to - from) / 1e3)
      from = to
   end
   write_second(thread, 0)
   write_moment("ended_ns", thread, now())
   io.stdin:read()
end

-- Takes the place of sysbench's own loop.
function thread_run(thread)
   if sysbench.opt.counted_transactions > 0 then
      run_counted(thread)
   else
      run_by_the_clock(thread)
   end
end

return rqps
