-- Numbers by which the threads of a step report to each other, in a small file that all threads map into memory.
--
-- Each number has one writer. Aligned 8 bytes are written atomically. Numbers are doubles, exact for integers below
-- 2^53.

local ffi = require("ffi")

local measuring = require("measuring")

ffi.cdef [[
long syscall(long number, ...);
int open(const char *path, int flags, ...);
void *mmap(void *address, size_t length, int protection, int flags, int file, int64_t offset);
]]

local shared = {}

local READ_WRITE, PROT_READ_WRITE, MAP_SHARED, PAGE = 2, 3, 1, 4096
local WORDS_OF_CLIENT = 8 -- a cache line
local ORIGIN, FAILED, STOPPED = 0, 1, 2 -- in the first cache line; then each client has one

-- The numbers of a client: statements done, the lowest id that is not deleted yet, the total number of statements to
-- do, and the state of each of its threads.
shared.INSERTED, shared.DELETED, shared.LOW, shared.LAST, shared.STATE = 0, 1, 2, 3, 4
local WANTED = 7 -- the number of statements of the other thread for which a thread waits; 0 if no thread waits
local READY, DONE = 1, 2

local words

function shared.open(path, clients)
   local file = ffi.C.open(path, READ_WRITE)
   assert(file >= 0, "can't open " .. path)
   local bytes = math.ceil((clients + 1) * WORDS_OF_CLIENT * 8 / PAGE) * PAGE
   local address = ffi.C.mmap(nil, bytes, PROT_READ_WRITE, MAP_SHARED, file, 0)
   assert(ffi.cast("intptr_t", address) ~= -1, "can't map " .. path)
   words = ffi.cast("double *", address)
   measuring.stopped = words + STOPPED
end

function shared.get(client, field)
   return words[(client + 1) * WORDS_OF_CLIENT + field]
end

function shared.set(client, field, value)
   words[(client + 1) * WORDS_OF_CLIENT + field] = value
end

-- Ends this thread's work if another one has failed.
function shared.check()
   if words[FAILED] ~= 0 then
      error(shared.OTHER_FAILED, 0)
   end
end

shared.OTHER_FAILED = "another thread has failed"

function shared.fail()
   words[FAILED] = 1
end

function shared.nap(us)
   ffi.C.usleep(us)
   shared.check()
end

local LONGEST_NAP_US = 100000

function shared.sleep_until(moment)
   local left_us = (moment - measuring.now()) / 1e3
   while left_us > 0 do
      shared.nap(math.min(left_us + 1, LONGEST_NAP_US))
      left_us = (moment - measuring.now()) / 1e3
   end
end

local FUTEX, WAIT, WAKE = 202, ffi.cast("int", 0), ffi.cast("int", 1) -- of Linux on x86-64
local LONGEST_WAIT = ffi.new("rqps_time", {0, LONGEST_NAP_US * 1000})
local expected = ffi.new("double[1]")

-- The upper half of a double with a whole number, which is 0 only for the number 0.
local function half(number)
   return ffi.cast("int *", number) + 1
end

-- Sleeps until the other thread has done so many statements. It also checks periodically, without being woken: of two
-- threads that check each other at the same time, neither may see the other's write yet.
function shared.wait_for(client, field, done)
   local wanted = words + (client + 1) * WORDS_OF_CLIENT + WANTED
   while shared.get(client, field) < done do
      wanted[0], expected[0] = done, done
      if shared.get(client, field) < done then
         ffi.C.syscall(FUTEX, half(wanted), WAIT, ffi.cast("int", half(expected)[0]), LONGEST_WAIT)
      end
      shared.check()
   end
   wanted[0] = 0
end

-- Reports the number of statements done, and wakes the other thread if it waits for this number.
function shared.report(client, field, done)
   shared.set(client, field, done)
   local wanted = words + (client + 1) * WORDS_OF_CLIENT + WANTED
   if wanted[0] ~= 0 and wanted[0] <= done then
      wanted[0] = 0
      ffi.C.syscall(FUTEX, half(wanted), WAKE, ffi.cast("int", 1))
   end
end

local function all(clients, roles, state)
   for client = 0, clients - 1 do
      for role = 0, roles - 1 do
         if shared.get(client, shared.STATE + role) < state then
            return false
         end
      end
   end
   return true
end

-- Waits for all threads; the first thread then sets the time at which all begin. Returns that time.
function shared.begin(client, role, clients, roles, ready_s)
   shared.set(client, shared.STATE + role, READY)
   if client == 0 and role == 0 then
      while not all(clients, roles, READY) do
         shared.nap(1000)
      end
      words[ORIGIN] = measuring.now() + ready_s * 1e9
   end
   while words[ORIGIN] == 0 do
      shared.nap(1000)
   end
   return words[ORIGIN]
end

function shared.done(client, role)
   shared.set(client, shared.STATE + role, DONE)
end

-- True if the first `roles` roles of all clients are done.
function shared.all_done(clients, roles)
   return all(clients, roles, DONE)
end

return shared
