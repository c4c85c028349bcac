-- Shared by all our scripts: the clock, counters per second, and the messages to and from the observer.

local ffi = require("ffi")

ffi.cdef [[
typedef struct { int64_t s; int64_t ns; } rqps_time;
int clock_gettime(int clock, rqps_time *time);
int usleep(unsigned int us);
struct rqps_pollfd { int fd; short events; short revents; };
int poll(struct rqps_pollfd *fds, unsigned long count, int timeout);
]]

local measuring = {}

local time = ffi.new("rqps_time[1]")

-- Nanoseconds for which this process was stopped while other servers had their turns. They do not count as our time.
-- The process that stops us writes this number.
measuring.stopped = ffi.new("double[1]")

-- The time in ns of CLOCK_MONOTONIC, minus the time for which we were stopped; or of another clock of the kernel. It
-- is read again if we were stopped during the reading.
function measuring.now(clock)
   local stopped = measuring.stopped
   local before
   repeat
      before = stopped[0]
      ffi.C.clock_gettime(clock or 1, time)
   until stopped[0] == before
   return tonumber(time[0].s) * 1e9 + tonumber(time[0].ns) - (clock and 0 or before)
end

measuring.OUR_CPU = 3 -- the clock of this thread's CPU time

-- Maps the processes of a server (the first one and its children) to their CPU time in ns, with all threads.
function measuring.cpu_of(pid)
   local used, pids = {}, tostring(pid)
   local file = io.open(("/proc/%d/task/%d/children"):format(pid, pid))
   if file then -- if not, the server has ended, which a connection will notice
      pids = pids .. " " .. file:read("*a")
      file:close()
   end
   for process in pids:gmatch("%d+") do
      if ffi.C.clock_gettime(bit.bor(bit.lshift(bit.bnot(tonumber(process)), 3), 2), time) == 0 then
         used[process] = tonumber(time[0].s) * 1e9 + tonumber(time[0].ns)
      end
   end
   return used
end

-- CPU time of a server in ns since `earlier`, without that of processes which have ended since then.
function measuring.cpu_since(earlier, pid)
   local ns = 0
   for process, used in pairs(measuring.cpu_of(pid)) do
      ns = ns + used - (earlier[process] or 0)
   end
   return ns
end

-- The numbers of the CPUs on which these processes may run.
function measuring.cpus_of(pids)
   local cpus = {}
   for _, pid in ipairs(pids) do
      local file = io.open(("/proc/%s/status"):format(pid))
      for first, last in (file and file:read("*a"):match("Cpus_allowed_list:%s*(%S+)") or ""):gmatch("(%d+)%-?(%d*)") do
         for cpu = tonumber(first), tonumber(last) or tonumber(first) do
            cpus[cpu] = true
         end
      end
      if file then
         file:close()
      end
   end
   return cpus
end

-- Maps CPUs to their idle time in ns by two counters: one to the microsecond, without an idle time that still lasts,
-- and one in hundredths of a second. Nil if the kernel has no counters of the first kind.
local function idle_of(cpus)
   local idle, ticks = {}, {}
   for line in io.lines("/proc/stat") do
      local cpu, idle_ticks, waiting = line:match("^cpu(%d+) %d+ %d+ %d+ (%d+) (%d+)")
      if cpu then
         ticks[tonumber(cpu)] = (idle_ticks + waiting) * 1e7
      end
   end
   for cpu in pairs(cpus) do
      local exact, state = 0, 0
      repeat
         local file = io.open(("/sys/devices/system/cpu/cpu%d/cpuidle/state%d/time"):format(cpu, state))
         if file then
            exact, state = exact + file:read("*n") * 1e3, state + 1
            file:close()
         end
      until not file
      if state == 0 then
         return nil
      end
      idle[cpu] = {exact, ticks[cpu] or 0}
   end
   return idle
end

-- What these CPUs, the servers and the load have done so far; nil if the kernel does not count idle time exactly.
function measuring.usage(cpus, servers)
   local used = {idle = idle_of(cpus), servers = {}}
   for _, pid in ipairs(servers) do
      used.servers[pid] = measuring.cpu_of(pid)
   end
   used.load_ns, used.at = measuring.now(2), measuring.now()
   return used.idle and used
end

-- Since `earlier`: the time of all CPUs in ns, and the part of it that other processes used or other guests took.
function measuring.outside_since(earlier, later)
   local cpu_ns, ours_ns = 0, later.load_ns - earlier.load_ns
   for pid, used in pairs(later.servers) do
      for process, ns in pairs(used) do
         ours_ns = ours_ns + ns - (earlier.servers[pid][process] or 0)
      end
   end
   for cpu, idle in pairs(later.idle) do
      local before = earlier.idle[cpu]
      cpu_ns = cpu_ns + later.at - earlier.at
      ours_ns = ours_ns + math.max(idle[1] - before[1], idle[2] - before[2])
   end
   return cpu_ns, math.max(0, cpu_ns - ours_ns)
end

-- Writes a line in one piece, so that the lines of several threads don't mix.
local function write_line(form, ...)
   io.stdout:write((form .. "\n"):format(...))
   io.stdout:flush()
end
measuring.write_line = write_line

-- Reports a moment, such as the origin of the measured part, to the observer.
function measuring.report(name, moment)
   write_line("rqps %s %.0f", name, moment)
end

-- Waits until the observer has read the counters of all threads and closes our input: a thread's counters are lost
-- when it ends. It must not read the input: the line that lets another thread begin may still be in it.
function measuring.stay()
   ffi.C.poll(ffi.new("struct rqps_pollfd[1]"), 1, -1) -- input is file 0; poll reports its end unasked
end

-- Reports that this thread has ended its work, and waits until its counters have been read.
function measuring.ended(moment)
   measuring.report("ended", moment)
   measuring.stay()
end

-- Latency buckets: 32 for each factor of two, so that a bucket is 2.2 % wide. Bucket b begins at 2^(b/32) µs.
local BUCKETS_PER_DOUBLING = 32
local LOG_SCALE = BUCKETS_PER_DOUBLING / math.log(2)
local BUCKETS = 40 * BUCKETS_PER_DOUBLING

-- Counts a client's operations of one kind per second since an origin, with the latency of each statement or
-- transaction. The first second may be negative. `add` counts one operation in the second of its end; it returns true
-- if it wrote seconds that were over, each as a JSON line. `write` writes the current second, and `finish` the rest.
function measuring.counter(client, kind, origin, first)
   local counts = ffi.new("uint32_t[?]", BUCKETS)
   local operations, transactions, retries, found, sum_us, max_us = 0, 0, 0, 0, 0, 0
   local second = first or 0
   local second_ends = origin + (second + 1) * 1e9

   local function write()
      local buckets = {}
      for bucket = 0, BUCKETS - 1 do
         if counts[bucket] > 0 then
            buckets[#buckets + 1] = ("[%d,%d]"):format(bucket, counts[bucket])
         end
      end
      write_line('{"client":%d,"kind":"%s","second":%d,"operations":%.0f,"transactions":%d,"retries":%d,' ..
         '"rows_found":%.0f,"sum_us":%.1f,"max_us":%.1f,"buckets":[%s]}', client + 1, kind, second, operations,
         transactions, retries, found, sum_us, max_us, table.concat(buckets, ","))
      ffi.fill(counts, ffi.sizeof(counts))
      operations, transactions, retries, found, sum_us, max_us = 0, 0, 0, 0, 0, 0
      second, second_ends = second + 1, second_ends + 1e9
   end

   local function write_until(at)
      while at >= second_ends do
         write()
      end
   end

   local function add(at, latency_us, did, refused, rows)
      local over = at >= second_ends
      if over then
         write_until(at)
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
      return over
   end

   -- `refused`: the number of refusals of the transaction that did not end in time.
   local function finish(at, refused)
      retries = retries + (refused or 0)
      write_until(at)
      if transactions > 0 then
         write()
      end
   end

   return {add = add, write = write, finish = finish}
end

return measuring
