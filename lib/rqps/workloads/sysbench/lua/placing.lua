-- Pins each client, and the server thread that serves it, to one CPU, and distributes the clients over the CPUs. The
-- kernel would place the threads anew in every slice, so that even two servers of one release would differ.

local ffi = require("ffi")

ffi.cdef [[
typedef struct { uint64_t inode, offset; uint16_t length; uint8_t type; char name[256]; } rqps_entry;
void *opendir(const char *path);
rqps_entry *readdir(void *folder);
int closedir(void *folder);
int sched_setaffinity(int thread, size_t size, const void *cpus);
]]

local LONG = "DO BENCHMARK(100000, 1 + 1)" -- 2 ms or more
local LONG_ENOUGH_NS = 5e5
local TRIES = 20
local SET_BYTES = 128

local placing = {}

-- CPU time of each thread of a process so far, in ns.
local function cpu_of_threads(pid)
   local found, path = {}, ("/proc/%s/task"):format(pid)
   local folder = ffi.C.opendir(path)
   assert(folder ~= nil, path .. " can't be read")
   local entry = ffi.C.readdir(folder)
   while entry ~= nil do
      local thread = tonumber(ffi.string(entry.name))
      local file = thread and io.open(("%s/%d/schedstat"):format(path, thread))
      if file then -- if not, the thread has ended meanwhile
         found[thread] = file:read("*n")
         file:close()
      end
      entry = ffi.C.readdir(folder)
   end
   ffi.C.closedir(folder)
   return found
end

-- The thread that serves a connection: the thread that uses CPU time during a long query. Performance schema knows
-- it, too, but not in every release, and not if it is off.
local function serving(connection, pid)
   for _ = 1, TRIES do
      local before = cpu_of_threads(pid)
      connection:query(LONG)
      local busiest, most, second = nil, 0, 0
      for thread, cpu_ns in pairs(cpu_of_threads(pid)) do
         local used = cpu_ns - (before[thread] or cpu_ns)
         if used > most then
            busiest, most, second = thread, used, most
         elseif used > second then
            second = used
         end
      end
      if most >= LONG_ENOUGH_NS and second < most / 2 then
         return busiest
      end
   end
   error(("process %s: no thread of its own serves this connection; measure with `placement: free`"):format(pid), 0)
end

local function pin(thread, cpu)
   local cpus = ffi.new("uint8_t[?]", SET_BYTES)
   cpus[math.floor(cpu / 8)] = bit.lshift(1, cpu % 8)
   assert(ffi.C.sched_setaffinity(thread, SET_BYTES, cpus) == 0, ("thread %d can't have CPU %d"):format(thread, cpu))
end

-- Pins the calling client, and the thread that serves its connection, to one of the CPUs of --cpus. `thread` is that
-- thread if it is known.
function placing.beside(connection, pid, client, thread)
   local cpus = {}
   for cpu in sysbench.opt.cpus:gmatch("%d+") do
      cpus[#cpus + 1] = tonumber(cpu)
   end
   if #cpus > 0 then
      local cpu = cpus[client % #cpus + 1]
      pin(thread or serving(connection, pid), cpu)
      pin(0, cpu)
   end
end

return placing
