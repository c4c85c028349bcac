-- Shared by all steps: options, tables, statements, and the loop that measures.
--
-- A step's script defines rqps.declare(), which returns a function that executes one transaction. Each thread counts
-- its own transactions, so that threads share no counters, and only counting is done while the clock runs.

local ffi = require("ffi")

local dialect = require("dialect")
local measuring = require("measuring")
local placing = require("placing")

local rqps = {}

sysbench.cmdline.options = {
   tables = {"Number of tables", 1},
   table_size = {"Rows of each table", 10000},
   warmup_seconds = {"Seconds before the measured part", 0},
   measured_seconds = {"Seconds of the measured part", 10},
   prepared = {"Use prepared statements", true},
   index_first = {"Create the secondary index before the rows are loaded, not after", false},
   statements = {"One transaction: its statements, with ; between them", ""},
   program = {"Or a file in Lua with transactions of one's own", ""},
   whole = {"Begin and end the measured part with a transaction, so that none counts in part", false},
   counted_transactions = {"Do so many, at a signal, instead of measuring by the clock; 0 is by the clock", 0},
   counted_warmup = {"Transactions of each thread before those", 0},
   zipf = {"Exponent of Zipf's law, by which ids are drawn; 0 draws all alike", 0.0},
   slice_us = {"Where servers take turns: microseconds of a slice, in which one of them has all the load", 0},
   servers = {"All servers in their order, as SOCKET=PID with , between", ""},
   cpus = {"CPUs to share out by connection, with , between; without them the kernel places all", ""},
}

local GROUP = "###########"

-- The form of a text of `groups` groups of eleven random digits, separated by dashes.
function rqps.form(groups)
   return GROUP .. string.rep("-" .. GROUP, groups - 1)
end

function rqps.table_name(number)
   return "sbtest" .. number
end

function rqps.random_table()
   return sysbench.rand.uniform(1, sysbench.opt.tables)
end

-- A random id of a loaded row, or a random value of k: both have the same range.
function rqps.random_id()
   return sysbench.rand.default(1, sysbench.opt.table_size)
end

-- Returns a function that draws from 1 to n, each number x in proportion to 1 / x^exponent, by inversion of the
-- integral and rejection (Hörmann and Derflinger, 1996). sysbench has this only since 1.1.
function rqps.zipf(exponent, n)
   local rest = 1 - exponent
   local function density(at) return at ^ -exponent end
   local function integral(at) return (at ^ rest - 1) / rest end
   local function inverse(area) return (1 + area * rest) ^ (1 / rest) end
   local from, to = integral(1.5) - 1, integral(n + 0.5)
   local sure = 2 - inverse(integral(2.5) - density(2)) -- a draw this near to a whole number is never rejected
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

local connection

local function prepared(parsed)
   local makers, values = parsed.makers, {}
   local statement = connection:prepare(table.concat(parsed.text, "?"))
   for i, maker in ipairs(makers) do
      local form = type(maker) == "table" and maker.form or maker
      values[i] = type(form) == "string" and statement:bind_create(sysbench.sql.type[dialect.text], #form + 1)
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
         elseif type(maker) == "table" then
            values[i]:set(maker.value())
         else
            values[i]:set(maker())
         end
      end
      return statement:execute()
   end
end

local function as_text(parsed)
   local makers, pieces, on = parsed.makers, {}, connection
   for i, text in ipairs(parsed.text) do
      local opens = type(makers[i]) == "string" and "'" or ""
      local closes = type(makers[i - 1]) == "string" and "'" or ""
      pieces[2 * i - 1] = closes .. text .. opens
   end
   return function()
      for i = 1, #makers do
         local maker = makers[i]
         if type(maker) == "table" then
            pieces[2 * i] = maker.literal()
         else
            pieces[2 * i] = type(maker) == "string" and sysbench.rand.string(maker) or maker()
         end
      end
      return on:query(table.concat(pieces))
   end
end

-- Returns a function that executes a statement. `parsed` has the texts around the values, and a maker of each value:
-- a function that returns a number, the form of a random text, or a table with two functions: `value`, which returns
-- a number, or a text no longer than `form`, and `literal`, which returns the same value as SQL.
function rqps.statement(parsed, is_text)
   return not is_text and sysbench.opt.prepared and dialect.prepares(parsed) and prepared(parsed) or as_text(parsed)
end

-- Data shared by the threads of a load, which have only the process and its environment in common.
ffi.cdef [[
typedef struct { char barrier[64], connecting[64]; double origin, slice, slice_ends; int turn; } rqps_shared;
void *calloc(size_t count, size_t size);
int setenv(const char *name, const char *value, int overwrite);
int pthread_barrier_init(void *barrier, const void *attributes, unsigned threads);
int pthread_barrier_wait(void *barrier);
int pthread_mutex_init(void *mutex, const void *attributes);
int pthread_mutex_lock(void *mutex);
int pthread_mutex_unlock(void *mutex);
]]

function init() -- before there are any threads
   local shared = ffi.cast("rqps_shared *", ffi.C.calloc(1, ffi.sizeof("rqps_shared")))
   ffi.C.pthread_barrier_init(shared.barrier, nil, sysbench.opt.threads)
   ffi.C.pthread_mutex_init(shared.connecting, nil)
   ffi.C.setenv("RQPS_SHARED", ("%.0f"):format(tonumber(ffi.cast("uintptr_t", shared))), 1)
end

local function shared_by_threads()
   return ffi.cast("rqps_shared *", tonumber(os.getenv("RQPS_SHARED")))
end

-- The servers of the load, each with its connection and the function that does a transaction on it.
local sides = {}

-- All threads share the driver's list of sockets and the environment, so they connect one at a time.
local function connect_to_all(thread)
   local driver, shared, others = sysbench.sql.driver(), shared_by_threads(), {}
   local several = sysbench.opt.servers:find(",")
   ffi.C.pthread_mutex_lock(shared.connecting)
   for socket, server in sysbench.opt.servers:gmatch("([^,=]+)=(%d+)") do
      connection = several and dialect.connect(driver, socket, others) or driver:connect()
      local pid = tonumber(dialect.process_of(connection, server))
      placing.beside(connection, pid, thread, dialect.process_each and pid)
      sides[#sides + 1] = {connection = connection, event = rqps.declare(thread), server = tonumber(server)}
   end
   ffi.C.pthread_mutex_unlock(shared.connecting)
end

function thread_init(thread)
   if sysbench.opt.zipf > 0 then
      rqps.random_id = rqps.zipf(sysbench.opt.zipf, sysbench.opt.table_size)
   end
   connect_to_all(thread)
end

function thread_done()
   for _, side in ipairs(sides) do
      side.connection:disconnect()
   end
end

function event() end -- sysbench requires this function, but never calls it

local at_work -- the position of the server that has the load now, among several

-- Executes one transaction, and repeats it from its start if the server refused it for a temporary reason, such as a
-- deadlock. Any other error ends the process. sysbench's own loop counts the statements that ran before a refusal;
-- this loop does not. Returns the number of refusals, and the number of rows that `event` reports.
local function transaction(event)
   local refused = 0
   while true do
      local done, problem = pcall(event)
      if done then
         return refused, type(problem) == "number" and problem or 0 -- rows, if `event` counts them
      end
      if type(problem) ~= "table" or problem.errcode ~= sysbench.error.RESTART_EVENT then
         if at_work then
            measuring.report("failed", at_work)
         end
         error(problem, 0)
      end
      refused = refused + 1
   end
end

-- Measures for a fixed time. Seconds before the origin are the warm-up and have negative numbers. With --whole, no
-- transaction begins before the origin, and the last transaction may end after the measured seconds.
local function run_by_the_clock(thread)
   local opt, whole = sysbench.opt, sysbench.opt.whole
   local origin = measuring.now() + opt.warmup_seconds * 1e9
   local end_ns = origin + opt.measured_seconds * 1e9
   if thread == 0 then
      measuring.report("origin", origin)
   end
   if whole then
      ffi.C.usleep(math.max(0, (origin - measuring.now()) / 1e3))
   end
   local counter = measuring.counter(thread, "0", origin, whole and 0 or -opt.warmup_seconds)
   local event, from = sides[1].event, measuring.now()
   while true do
      local refused, rows = transaction(event)
      local to = measuring.now()
      if to >= end_ns and not whole then -- this transaction does not count: it ended after the measured part
         counter.finish(end_ns, refused)
         measuring.stay()
         return
      end
      local wrote = counter.add(to, (to - from) / 1e3, 1, refused, rows)
      if to >= end_ns then
         counter.finish(to)
         measuring.ended(to)
         return
      end
      from = wrote and measuring.now() or to -- the time for writing belongs to no transaction
   end
end

-- Runs a fixed number of transactions, the same on every server however slow it is, distributed over the threads.
-- They begin when our observer writes a line for each thread.
local function run_counted(thread)
   local event = sides[1].event
   for _ = 1, sysbench.opt.counted_warmup do
      transaction(event)
   end
   dialect.mark(sides[1].connection)
   measuring.report("ready", measuring.now())
   io.stdin:read()
   local counter = measuring.counter(thread, "0", math.huge) -- all in one second
   local all, threads = sysbench.opt.counted_transactions, sysbench.opt.threads
   local from = measuring.now()
   for _ = 1, math.floor(all / threads) + (thread < all % threads and 1 or 0) do
      local refused, rows = transaction(event)
      local to = measuring.now()
      counter.add(to, (to - from) / 1e3, 1, refused, rows)
      from = to
   end
   counter.write()
   dialect.mark(sides[1].connection)
   measuring.ended(measuring.now())
end

local WARM, OVER = -1e9, 1e9 -- numbers of the warm-up's first slice, and of the end of all slices

-- The turns of a cycle, two for each side. Two sides go there and back, so that each side once follows itself and
-- finds warm caches. More sides take turns in two random orders in which no side follows itself: there and back would
-- favour the first and the last side.
local function turns_of_cycle(count, latest)
   if count == 2 then
      return {1, 2, 2, 1}
   end
   local turns = {}
   for first = 0, count, count do
      repeat
         for number = 1, count do
            local place = math.random(number)
            turns[first + number] = turns[first + place]
            turns[first + place] = number
         end
      until turns[first + 1] ~= latest
      latest = turns[first + count]
   end
   return turns
end

-- Servers take turns: one server has all the load for a slice, then another one. Two turns of each server are a
-- cycle. In every thread a slice ends with the end of a transaction, however long that takes. Threads wait for each
-- other, and the first thread decides which server is next. Only the time of transactions counts, so waiting costs no
-- server time.
local function run_in_slices(thread)
   local now, opt = measuring.now, sysbench.opt
   local shared = shared_by_threads()
   local function wait_for_all()
      if opt.threads > 1 then
         ffi.C.pthread_barrier_wait(shared.barrier)
      end
   end
   wait_for_all() -- until all have connected
   if thread == 0 then
      shared.origin = now() + opt.warmup_seconds * 1e9
      measuring.report("origin", shared.origin)
   end
   wait_for_all()
   local origin = shared.origin
   local end_ns = origin + opt.measured_seconds * 1e9
   local cycle, counters = 2 * #sides, {}
   for number in ipairs(sides) do
      counters[number] = measuring.counter(thread, tostring(number - 1), origin, -opt.warmup_seconds)
   end

   local turns, server, cpu_before, server_ns = nil, nil, nil, 0
   local lines, pids, cpus, usage = {}, {}, nil, nil
   for place, side in ipairs(sides) do
      pids[place] = side.server
   end
   -- Reports how much of the cycle that has ended went to other processes.
   local function end_cycle(number)
      cpus = cpus or measuring.cpus_of({"self", unpack(pids)})
      local before = usage
      usage = measuring.usage(cpus, pids)
      if before and usage then
         local cpu_ns, outside_ns = measuring.outside_since(before, usage)
         lines[#lines + 1] = ("cycle %d %.1f %.1f"):format(number / cycle - 1, cpu_ns / 1e3, outside_ns / 1e3)
      end
   end
   -- Runs between two slices: reads the CPU time of the server whose slice ended, and chooses the next server.
   local function lead(number)
      if server then
         server_ns = measuring.cpu_since(cpu_before, server)
      end
      local at = now()
      if number < 0 and at >= origin then
         number = 0
         measuring.report("ready", at)
         io.stdin:read() -- until the observer has read the counters of all servers
         end_ns = now() + opt.measured_seconds * 1e9
      end
      if number >= 0 and number % cycle == 0 then
         end_cycle(number)
         at = now()
         if number > 0 and at >= end_ns then
            number = OVER
         end
      end
      shared.slice, shared.slice_ends = number, at + opt.slice_us * 1e3
      if number < 0 then
         shared.slice_ends = math.min(shared.slice_ends, origin)
      end
      if not turns or number % cycle == 0 then
         turns = turns_of_cycle(#sides, shared.turn)
      end
      shared.turn = turns[number % cycle + 1]
      server = sides[shared.turn].server
      cpu_before = measuring.cpu_of(server)
   end
   local function next_slice(number)
      wait_for_all()
      if thread == 0 then
         lead(number)
      end
      wait_for_all()
      return shared.slice
   end

   local number = next_slice(WARM)
   while number < OVER do
      local turn = shared.turn
      at_work = turn - 1
      local event, add, slice_ends = sides[turn].event, counters[turn].add, shared.slice_ends
      local latest = number < 0 and origin - 1 or math.huge -- what began in the warm-up counts as warm-up
      local done, busy_ns, wrote = 0, 0, false
      local client_ns, from = now(measuring.OUR_CPU), now()
      repeat
         local refused, rows = transaction(event)
         local to = now()
         done, busy_ns = done + 1, busy_ns + to - from
         local over = add(to < latest and to or latest, (to - from) / 1e3, 1, refused, rows)
         from, wrote = over and now() or to, wrote or over
      until to >= slice_ends
      client_ns = now(measuring.OUR_CPU) - client_ns
      if wrote and #lines > 0 then
         measuring.write_line(table.concat(lines, "\n"))
         lines = {}
      end
      local following = next_slice(number + 1)
      if number >= 0 then
         lines[#lines + 1] = ("slice %d %d %d %.1f %.1f %.1f"):format(
            number, at_work, done, busy_ns / 1e3, client_ns / 1e3, server_ns / 1e3)
      end
      number = following
   end
   local ended = now()
   for _, counter in ipairs(counters) do
      counter.finish(ended)
   end
   measuring.write_line(table.concat(lines, "\n"))
   measuring.ended(ended)
end

-- Replaces sysbench's own loop.
function thread_run(thread)
   if sysbench.opt.slice_us > 0 then
      run_in_slices(thread)
   elseif sysbench.opt.counted_transactions > 0 then
      run_counted(thread)
   else
      run_by_the_clock(thread)
   end
end

return rqps
