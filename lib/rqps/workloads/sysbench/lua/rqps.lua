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
   column = {"Column of a range: id or k", "id"},
   index_first = {"Create the secondary index before the rows are loaded, not after", false},
   range_size = {"Distance of a range's two ends", 100},
}

-- ---------------------------------------------------------------------------------------------------------------
-- Tables
-- ---------------------------------------------------------------------------------------------------------------

local GROUP = "###########"

-- `groups` groups of eleven random digits, with dashes between.
function rqps.digits(groups)
   return sysbench.rand.string(GROUP .. string.rep("-" .. GROUP, groups - 1))
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

-- ---------------------------------------------------------------------------------------------------------------
-- Statements
-- ---------------------------------------------------------------------------------------------------------------

local connection
local declared = {}

-- Declares a statement on each table, with whole numbers for its question marks and {table} for the table's name.
-- Returns the function that runs it: run(table_number, value, ...).
function rqps.statement(sql)
   local statement = {}
   declared[#declared + 1] = {sql = sql, on = statement}
   return function(table_number, first, second)
      return statement[table_number](first, second)
   end
end

local function prepared(sql, parameters)
   local statement = connection:prepare(sql)
   local values = {}
   for i = 1, parameters do
      values[i] = statement:bind_create(sysbench.sql.type.INT)
   end
   if parameters > 0 then
      statement:bind_param(unpack(values))
   end
   return function(first, second)
      if first then values[1]:set(first) end
      if second then values[2]:set(second) end
      statement:execute()
   end
end

local function as_text(sql)
   local pattern = sql:gsub("%?", "%%d")
   return function(first, second)
      connection:query(pattern:format(first, second))
   end
end

-- A statement that is never prepared, with the values in its text.
function rqps.query(sql)
   connection:query(sql)
end

function thread_init()
   connection = sysbench.sql.driver():connect()
   for _, statement in ipairs(declared) do
      for number = 1, sysbench.opt.tables do
         local sql = statement.sql:gsub("{table}", rqps.table_name(number))
         local _, parameters = sql:gsub("%?", "")
         statement.on[number] = sysbench.opt.prepared and prepared(sql, parameters) or as_text(sql)
      end
   end
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
local transactions, errors, sum_us, max_us = 0, 0, 0, 0

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
   io.stdout:write(('{"thread":%d,"second":%d,"transactions":%d,"errors":%d,"sum_us":%.1f,"max_us":%.1f,"buckets":[%s]}\n')
      :format(thread, second, transactions, errors, sum_us, max_us, table.concat(buckets, ",")))
   io.stdout:flush()
   ffi.fill(counts, ffi.sizeof(counts))
   transactions, errors, sum_us, max_us = 0, 0, 0, 0
end

-- One transaction; again from its start if the server refused it for a reason that goes away, such as a deadlock.
local function transaction(thread)
   while true do
      local done, problem = pcall(event, thread)
      if done then
         return
      end
      if type(problem) ~= "table" or problem.errcode ~= sysbench.error.RESTART_EVENT then
         error(problem, 0)
      end
      errors = errors + 1
   end
end

-- Takes the place of sysbench's own loop. Seconds before the origin are the warm-up and are below zero.
function thread_run(thread)
   local from = now()
   local origin = from + sysbench.opt.warmup_seconds * 1e9
   if thread == 0 then
      io.stdout:write(('{"origin_ns":%.0f}\n'):format(origin))
      io.stdout:flush()
   end
   local second = -sysbench.opt.warmup_seconds
   local last = sysbench.opt.measured_seconds - 1
   local second_ends = origin + (second + 1) * 1e9
   from = now()
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
   end
   ffi.C.usleep(100000) -- the counters of this thread are read now, and go with it
end

return rqps
