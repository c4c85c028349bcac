-- The writes of a client and their timing: it inserts rows, deletes as many, and creates indexes.

local measuring = require("measuring")
local rows = require("rows")
local shared = require("shared")
local statements = require("statements")

local writing = {}

local MOST_AHEAD, NEAR_AGAIN = 8, 4 -- statements
local SHORTEST_INTERVAL = 0.95 -- in seconds: after a longer second, the limiter begins the next one at once
local LOOK_UP_EVERY = 1000 -- deletes: the lowest id is read again, since ids may have gaps

-- The number of statements in which a client inserts all its rows.
function writing.all_statements()
   return math.ceil(sysbench.opt.rows / sysbench.opt.rows_per_transaction)
end

local function rows_of(statement)
   local each = sysbench.opt.rows_per_transaction
   return math.min(each, sysbench.opt.rows - (statement - 1) * each)
end

-- Returns a function that waits until the next statement is due and returns the time when it was due: all statements
-- of a second are due at the beginning of the second. Nil if there is no limit.
local function limiter(origin)
   if sysbench.opt.rows_per_second == 0 then
      return nil
   end
   local each_second = sysbench.opt.rows_per_second / sysbench.opt.rows_per_transaction
   local began, done = origin, 0
   return function()
      if done == each_second then
         local next_begins = began + 1e9
         local now = measuring.now()
         if sysbench.opt.catching_up or now - began < SHORTEST_INTERVAL * 1e9 then
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

-- Returns a function that waits until the client's other thread has come near to the statement that is next here.
local function near(client, other)
   return function(statement)
      if statement - shared.get(client, other) > MOST_AHEAD then
         shared.wait_for(client, other, statement - NEAR_AGAIN)
      end
   end
end

local function at_once() return 0 end

-- False if the step is being ended because it takes too long: then the remaining statements do not wait.
local function in_time(client)
   return shared.get(client, shared.LAST) == writing.all_statements()
end

-- Executes the statements of a thread, each when it is due and the client's other thread is near. Reports each
-- statement as done, and with a rate limit counts its latency from its due time. `thread` has the kind of its
-- statements, a function that returns a statement's text, and functions to call before that and after the statement.
local function write(client, origin, thread)
   local limit = limiter(origin)
   local wait, near = limit or at_once, thread.other and near(client, thread.other) or at_once
   local counter = measuring.counter(client, thread.kind, origin)
   local late = limit and measuring.counter(client, thread.kind .. " due", origin)
   local statement, due = 1, origin
   while statement <= shared.get(client, shared.LAST) do
      if in_time(client) then
         due = wait()
      end
      near(statement)
      thread.before(statement)
      if statement <= shared.get(client, shared.LAST) then
         local did = rows_of(statement)
         local text, length = thread.text(statement, did)
         local from = measuring.now()
         local _, refused = statements.execute(text, length)
         local to = measuring.now()
         counter.add(to, (to - from) / 1e3, did, refused, 0)
         if late then
            late.add(to, (to - due) / 1e3, did, 0, 0)
         end
         thread.after(did)
         shared.report(client, thread.reports, statement)
      end
      statement = statement + 1
   end
   if in_time(client) then
      wait() -- until the end of the last second
   end
   return function(at)
      counter.finish(at)
      if late then
         late.finish(at)
      end
   end
end

-- Returns a function that returns the timestamp of a statement's rows, by the rows' own clock, which follows from the
-- number of rows before them.
local function clock()
   local second, moment = -1, ""
   return function(statement)
      local opt = sysbench.opt
      local at = math.floor((statement - 1) * opt.rows_per_transaction / opt.clock_rows)
      if at ~= second then
         second, moment = at, os.date("!%Y-%m-%d %H:%M:%S", opt.clock_begin + at)
      end
      return moment
   end
end

-- Inserts the rows of a client. It ends when all are inserted or, in a step with a rate that takes too long, soon
-- after the step's maximum time.
function writing.insert(client, origin)
   local opt = sysbench.opt
   local deletes, moment = opt.delete ~= "", clock()
   local put = rows.writer(statements.with(opt.insert, {table = statements.table_of(client)}),
      opt.rows_per_transaction, rows.source(opt.rand_seed, client))
   local deadline = opt.rows_per_second > 0 and origin + opt.most_seconds * 1e9 or math.huge
   return write(client, origin, {
      kind = "insert",
      reports = shared.INSERTED,
      other = deletes and shared.DELETED or nil,
      before = function(statement)
         if measuring.now() >= deadline and in_time(client) then
            -- The deletes may be ahead: the inserts that belong to them are still done.
            local last = statement - 1 + (deletes and MOST_AHEAD or 0)
            shared.set(client, shared.LAST, math.min(writing.all_statements(), last))
         end
      end,
      text = function(statement, did) return put(did, moment(statement)) end,
      after = at_once,
   })
end

-- Executes as many DELETE statements as there are INSERT statements; each deletes the oldest rows.
function writing.delete(client, origin)
   local form = statements.with(sysbench.opt.delete,
      {table = statements.table_of(client), low = "%.0f", rows = "%d"})
   local low = shared.get(client, shared.LOW)
   return write(client, origin, {
      kind = "delete",
      reports = shared.DELETED,
      other = shared.INSERTED,
      before = function(statement)
         if statement > 1 and (statement - 1) % LOOK_UP_EVERY == 0 then
            low = statements.end_of_ids(client, "MIN")
         end
      end,
      text = function(_, did) return form:format(low, did) end,
      after = function(did)
         low = low + did
         shared.set(client, shared.LOW, low)
      end,
   })
end

-- Creates the indexes of a client's table. On a shared table, the first client creates them when all rows are in.
function writing.make_indexes(client, origin)
   local opt = sysbench.opt
   if opt.shared_table then
      if client > 0 then
         return
      end
      for other = 0, opt.clients - 1 do
         while shared.get(other, shared.INSERTED) < writing.all_statements() do
            shared.nap(1000)
         end
      end
   end
   local counted = measuring.counter(client, "index", origin)
   local from = measuring.now()
   local _, refused = statements.execute(statements.with(opt.indexes, {table = statements.table_of(client)}))
   local to = measuring.now()
   counted.add(to, (to - from) / 1e3, opt.indexed_rows, refused, 0)
   return counted.finish
end

return writing
