-- A step of the insert benchmark: each client inserts from one thread, deletes from another and asks from a third, as far
-- as the step has it. Options say all that differs between steps; steps.yaml has the statements.

local counter = require("counter")
local rows = require("rows")
local shared = require("shared")

sysbench.cmdline.options = {
   shared_file = {"Where threads tell each other what they have done", ""},
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
   most_seconds = {"After which a limited step ends, though rows are left", 0},
   indexed_rows = {"Rows of a table when its indexes are made", 0.0},
   clock_begin = {"Of the rows, in seconds since 1970", 0},
   clock_rows = {"Rows of a client in a second of that clock", 10000},
   row_seed = {"Of all that is drawn", 0},
   ready_seconds = {"From the last connection to the beginning", 1},
}

local MOST_APART, NEAR_AGAIN = 8, 4 -- statements between a client's inserts and deletes
local LOOK_UP_EVERY = 1000 -- deletes
local HIGHEST_EVERY = 100 -- point queries
local SHORTEST_INTERVAL = 0.95 -- of a second: after a longer one the limiter lets the next begin at once
local INSERTER, DELETER, ASKER = 0, 1, 2

local opt, connection

-- ---------------------------------------------------------------------------------------------------------------
-- Statements
-- ---------------------------------------------------------------------------------------------------------------

local function table_of(client)
   return "pi" .. (opt.shared_table and 1 or client + 1)
end

local function with(text, values)
   return (text:gsub("{(%w+)}", values))
end

local function query(text)
   return connection:query(text)
end

-- Does a statement; again if the server refused it for a reason that goes away, such as a deadlock. Any other error
-- ends the step. Gives what the server answered, and how often it had refused.
local function execute(text)
   local refused = 0
   while true do
      local done, answer = pcall(query, text)
      if done then
         return answer, refused
      end
      if type(answer) ~= "table" or answer.errcode ~= sysbench.error.RESTART_EVENT then
         error(answer, 0)
      end
      refused = refused + 1
      shared.check()
   end
end

local function end_of_ids(client, which)
   local found = connection:query_row(("SELECT %s(transactionid) FROM %s"):format(which, table_of(client)))
   return tonumber(found) or 0
end

-- ---------------------------------------------------------------------------------------------------------------
-- When a statement may begin
-- ---------------------------------------------------------------------------------------------------------------

-- A function that waits until the next statement is due, and gives that moment; the whole of a second's rows is due at
-- its beginning.
local function limiter(origin)
   local rounds = opt.rows_per_second / opt.rows_per_transaction
   local began, done = origin, 0
   return function()
      if done == rounds then
         local next_begins = began + 1e9
         local now = shared.now()
         if opt.catching_up or now - began < SHORTEST_INTERVAL * 1e9 then
            shared.sleep_until(next_begins)
            began = next_begins
         else
            began = now
         end
         done = 0
      end
      done = done + 1
      return began
   end
end

-- Waits until the other thread of the client has come near to a statement that this one is about to do.
local function wait_for_other(client, statement, other)
   if statement - shared.get(client, other) > MOST_APART then
      local us = 50
      repeat
         shared.nap(us)
         us = math.min(2 * us, 1000)
      until statement - shared.get(client, other) <= NEAR_AGAIN
   end
end

-- ---------------------------------------------------------------------------------------------------------------
-- What a client does
-- ---------------------------------------------------------------------------------------------------------------

local function statements()
   return math.ceil(opt.rows / opt.rows_per_transaction)
end

local function rows_of(statement)
   return math.min(opt.rows_per_transaction, opt.rows - (statement - 1) * opt.rows_per_transaction)
end

-- Counts a statement, and how late it ended by the limiter where there is one.
local function count(counted, late, from, to, due, did, refused)
   counted.add(to, (to - from) / 1e3, did, refused, 0)
   if late then
      late.add(to, (to - due) / 1e3, did, 0, 0)
   end
end

local function finish(at, ...)
   for _, counted in ipairs({...}) do
      counted.finish(at)
   end
end

local function insert(client, origin)
   local write = rows.writer(with(opt.insert, {table = table_of(client)}), opt.rows_per_transaction,
      rows.source(opt.row_seed, client))
   local counted = counter.new(client, "insert", origin)
   local late = opt.rows_per_second > 0 and counter.new(client, "insert due", origin) or nil
   local wait = late and limiter(origin) or function() return 0 end
   local ends = late and origin + opt.most_seconds * 1e9 or math.huge
   local deletes, last = opt.delete ~= "", statements()
   local second, moment = -1, ""
   local statement = 1
   while statement <= last do
      local due = wait()
      if deletes then
         wait_for_other(client, statement, shared.DELETED)
      end
      if shared.now() >= ends then -- the deletes may be ahead; those inserts are done, too
         last = math.min(last, deletes and statement - 1 + MOST_APART or statement - 1)
         shared.set(client, shared.LAST, last)
         ends = math.huge
         wait = function() return due end
      end
      if statement <= last then
         local at = math.floor((statement - 1) * opt.rows_per_transaction / opt.clock_rows)
         if at ~= second then
            second, moment = at, os.date("!%Y-%m-%d %H:%M:%S", opt.clock_begin + at)
         end
         local text = write(rows_of(statement), moment)
         local from = shared.now()
         local _, refused = execute(text)
         count(counted, late, from, shared.now(), due, rows_of(statement), refused)
         shared.set(client, shared.INSERTED, statement)
      end
      statement = statement + 1
   end
   if last == statements() then
      wait() -- to the end of the last second
   end
   return shared.now(), counted, late
end

local function delete(client, origin)
   local counted = counter.new(client, "delete", origin)
   local late = opt.rows_per_second > 0 and counter.new(client, "delete due", origin) or nil
   local wait = late and limiter(origin) or function() return 0 end
   local form = with(opt.delete, {table = table_of(client), low = "%.0f", rows = "%d"})
   local low
   local statement = 1
   local due
   while statement <= shared.get(client, shared.LAST) do
      if shared.get(client, shared.LAST) == statements() then -- else it is late enough
         due = wait()
      end
      wait_for_other(client, statement, shared.INSERTED)
      if (statement - 1) % LOOK_UP_EVERY == 0 then
         low = end_of_ids(client, "MIN")
         shared.set(client, shared.LOW, low)
      end
      if statement <= shared.get(client, shared.LAST) then
         local did = rows_of(statement)
         local text = form:format(low, did)
         local from = shared.now()
         local _, refused = execute(text)
         count(counted, late, from, shared.now(), due, did, refused)
         low = low + did
         shared.set(client, shared.LOW, low)
         shared.set(client, shared.DELETED, statement)
      end
      statement = statement + 1
   end
   if shared.get(client, shared.LAST) == statements() then
      wait()
   end
   return shared.now(), counted, late
end

-- A function that makes one query, by its text with one value in braces.
local function maker(text, client, below)
   local highest, made = 0, 0
   local drawn = {
      product = function() return below(10000) end,
      register = function() return below(1000) end,
      price = function() return below(500) end,
      ids = function()
         if made % HIGHEST_EVERY == 0 then
            highest = end_of_ids(client, "MAX")
         end
         made = made + 1
         local low, ids = shared.get(client, shared.LOW), {}
         for i = 1, opt.query_rows do
            ids[i] = low + below(math.max(1, highest - low))
         end
         return table.concat(ids, ", ")
      end,
   }
   text = with(text, {table = table_of(client), rows = tostring(opt.query_rows)})
   local before, name, after = text:match("^(.-){(%w+)}(.*)$")
   local draw = drawn[name]
   return function() return before .. draw() .. after end
end

local function ask(client, origin)
   local below = rows.source(opt.row_seed, opt.clients + client)
   local makers = {}
   for text in opt.queries:gmatch("[^;]+") do
      makers[#makers + 1] = maker(text, client, below)
   end
   local counted = counter.new(client, "query", origin)
   local writers = opt.delete ~= "" and 2 or 1
   local to = shared.now()
   local look_at = to
   while to < look_at or not shared.all_done(opt.clients, writers) do
      if to >= look_at then
         shared.check()
         look_at = to + 1e6
      end
      local text = makers[#makers > 1 and 1 + below(#makers) or 1]()
      local from = shared.now()
      local answer, refused = execute(text)
      to = shared.now()
      counted.add(to, (to - from) / 1e3, 1, refused, answer.nrows)
   end
   return to, counted
end

-- The indexes of a client's table; of a shared one the first client makes them, when all rows are in.
local function make_indexes(client, origin)
   if opt.shared_table then
      shared.set(client, shared.INSERTED, math.huge)
      if client > 0 then
         return
      end
      for other = 0, opt.clients - 1 do
         while shared.get(other, shared.INSERTED) ~= math.huge do
            shared.nap(1000)
         end
      end
   end
   local counted = counter.new(client, "index", origin)
   local from = shared.now()
   local _, refused = execute(with(opt.indexes, {table = table_of(client)}))
   local to = shared.now()
   counted.add(to, (to - from) / 1e3, opt.indexed_rows, refused, 0)
   return to, counted
end

-- ---------------------------------------------------------------------------------------------------------------
-- Threads
-- ---------------------------------------------------------------------------------------------------------------

local function write_moment(name, moment)
   io.stdout:write(('{"%s":%.0f}\n'):format(name, moment))
   io.stdout:flush()
end

local function roles()
   local found = {INSERTER}
   if opt.delete ~= "" then found[#found + 1] = DELETER end
   if opt.queries ~= "" then found[#found + 1] = ASKER end
   return found
end

local function run(thread)
   local mine = roles()
   local client, number = thread % opt.clients, math.floor(thread / opt.clients)
   local origin = shared.begin(client, number, opt.clients, #mine, opt.ready_seconds)
   if thread == 0 then
      write_moment("origin_ns", origin)
   end
   shared.sleep_until(origin)
   local ended, counted, late
   if mine[number + 1] == INSERTER then
      ended, counted, late = insert(client, origin)
      if opt.indexes ~= "" then
         finish(ended, counted)
         ended, counted = make_indexes(client, origin)
      end
   elseif mine[number + 1] == DELETER then
      ended, counted, late = delete(client, origin)
   else
      ended, counted = ask(client, origin)
   end
   shared.done(client, number)
   ended = ended or shared.now()
   finish(ended, counted, late)
   write_moment("ended_ns", ended)
   io.stdin:read() -- until our observer has read the counters of all threads, and ends our input
end

-- The first thread that fails tells why; the others end without a word.
local function failing(work, thread)
   local done, problem = pcall(work, thread)
   if not done and problem ~= shared.OTHER_FAILED then
      shared.fail()
      error(type(problem) == "table" and problem.sql_errmsg or problem, 0)
   end
end

function thread_init()
   opt = sysbench.opt
   shared.open(opt.shared_file, opt.clients)
   failing(function() connection = sysbench.sql.driver():connect() end)
end

-- Takes the place of sysbench's own loop.
function thread_run(thread)
   failing(run, thread)
end

function thread_done()
   connection:disconnect()
end

function event() end -- sysbench does not run without one
