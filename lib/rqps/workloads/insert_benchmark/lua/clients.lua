-- A step of the insert benchmark: each client inserts from one thread and, if the step does so, deletes from a second
-- and queries from a third thread. Steps differ only in their options; steps.yaml has the statements.

local ask = require("asking")
local measuring = require("measuring")
local shared = require("shared")
local statements = require("statements")
local writing = require("writing")

sysbench.cmdline.options = {
   shared_file = {"Where threads report to each other what they have done", ""},
   clients = {"Clients, each of as many threads as it has roles", 1},
   shared_table = {"One table for all clients", false},
   insert = {"The statement that inserts, up to its rows", ""},
   delete = {"The statement that deletes; none if empty", ""},
   queries = {"Those of which one is drawn each time, with ; between them; none if empty", ""},
   indexes = {"The statement that makes the indexes when the rows are in; none if empty", ""},
   rows = {"Rows that each client inserts", 0},
   rows_per_transaction = {"Of which so many in a statement", 100},
   query_rows = {"Rows that a query asks for", 10},
   rows_per_second = {"Rows a second that each client inserts; 0 is no limit", 0},
   catching_up = {"A late second is followed by what it missed at once", false},
   most_seconds = {"After which a limited step stops, though rows are left", 0},
   indexed_rows = {"Rows of a table when its indexes are made", 0.0},
   clock_begin = {"Of the rows, in seconds since 1970", 0},
   clock_rows = {"Rows of a client in a second of that clock", 10000},
   ready_seconds = {"From the last connection to the beginning", 1},
}

-- The roles of a client's threads. Each is a function of the client and of the time at which the step begins; it
-- returns a function that writes the counts that are left.
local function roles()
   local opt = sysbench.opt
   local found = {writing.insert}
   if opt.delete ~= "" then
      found[#found + 1] = writing.delete
   end
   if opt.queries ~= "" then
      local writers = #found
      found[#found + 1] = function(client, origin) return ask(client, origin, writers) end
   end
   if opt.indexes ~= "" then
      found[1] = function(client, origin)
         writing.insert(client, origin)(measuring.now())
         return writing.make_indexes(client, origin)
      end
   end
   return found
end

local function run(thread)
   local opt, all = sysbench.opt, roles()
   local client, role = thread % opt.clients, math.floor(thread / opt.clients)
   if role == 0 then
      shared.set(client, shared.LAST, writing.all_statements())
      shared.set(client, shared.LOW, #all > 1 and statements.end_of_ids(client, "MIN") or 0)
   end
   local origin = shared.begin(client, role, opt.clients, #all, opt.ready_seconds)
   if thread == 0 then
      measuring.report("origin", origin)
   end
   shared.sleep_until(origin)
   local finish = all[role + 1](client, origin)
   local ended = measuring.now()
   shared.done(client, role)
   if finish then
      finish(ended)
   end
   measuring.ended(ended)
end

-- The first thread that fails reports the error; the other threads end without a message.
local function failing(work, thread)
   local done, problem = pcall(work, thread)
   if not done and problem ~= shared.OTHER_FAILED then
      shared.fail()
      error(type(problem) == "table" and problem.sql_errmsg or problem, 0)
   end
end

function thread_init()
   shared.open(sysbench.opt.shared_file, sysbench.opt.clients)
   failing(statements.connect)
end

-- Replaces sysbench's own loop.
function thread_run(thread)
   failing(run, thread)
end

function thread_done()
   statements.disconnect()
end

function event() end -- sysbench does not run without one
