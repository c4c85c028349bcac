-- What a client writes, and when: rows inserted, as many deleted, indexes.

local counter = require("counter")
local rows = require("rows")
local shared = require("shared")
local statements = require("statements")

local writing = {}

local MOST_AHEAD, NEAR_AGAIN = 8, 4 -- statements
local SHORTEST_INTERVAL = 0.95 -- of a second: after a longer one the limiter lets the next begin at once
local LOOK_UP_EVERY = 1000 -- deletes: ids may have gaps

-- Statements in which a client inserts all its rows, and the rows of one of them.
local function all_statements()
   return math.ceil(sysbench.opt.rows / sysbench.opt.rows_per_transaction)
end

local function rows_of(statement)
   local each = sysbench.opt.rows_per_transaction
   return math.min(each, sysbench.opt.rows - (statement - 1) * each)
end

-- A function that waits until the next statement is due, and gives that moment: what belongs to a second is due at
-- its beginning. Nil where there is no limit.
local function limiter(origin)
   if sysbench.opt.rows_per_second == 0 then
      return nil
   end
   local each_second = sysbench.opt.rows_per_second / sysbench.opt.rows_per_transaction
   local began, done = origin, 0
   return function()
      if done == each_second then
         local next_begins = began + 1e9
         local now = shared.now()
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

-- Waits until the other thread of a client has come near to a statement that this one is about to do.
local function near(client, other)
   return function(statement)
      if statement - shared.get(client, other) > MOST_AHEAD then
         shared.wait_for(client, other, statement - NEAR_AGAIN)
      end
   end
end

local function at_once() return 0 end

-- Counters of a kind, and of how late its statements ended where they have a time at which they are due.
local function counters(client, kind, origin, limited)
   local counted = counter.new(client, kind, origin)
   local late = limited and counter.new(client, kind .. " due", origin)
   local function add(from, to, due, did, refused)
      counted.add(to, (to - from) / 1e3, did, refused, 0)
      if late then
         late.add(to, (to - due) / 1e3, did, 0, 0)
      end
   end
   local function finish(at)
      counted.finish(at)
      if late then
         late.finish(at)
      end
   end
   return add, finish
end

-- A function that gives the moment of a statement's rows, by their own clock: it goes on with their number.
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

-- The rows of a client. They end with their number; in a limited step that takes too long, soon after its time is
-- over.
function writing.insert(client, origin)
   local opt = sysbench.opt
   local limit = limiter(origin)
   local wait, deletes = limit or at_once, opt.delete ~= ""
   local add, finish = counters(client, "insert", origin, limit)
   local write = rows.writer(statements.with(opt.insert, {table = statements.table_of(client)}),
      opt.rows_per_transaction, rows.source(opt.row_seed, client))
   local moment, near = clock(), deletes and near(client, shared.DELETED) or at_once
   local deadline = limit and origin + opt.most_seconds * 1e9 or math.huge
   local last, statement, due = all_statements(), 1, origin
   while statement <= last do
      if deadline > 0 then -- else the rest is late enough
         due = wait()
      end
      near(statement)
      if deadline > 0 and shared.now() >= deadline then -- inserts that belong to deletes which are ahead are done, too
         last = math.min(last, statement - 1 + (deletes and MOST_AHEAD or 0))
         shared.set(client, shared.LAST, last)
         deadline = 0
      end
      if statement <= last then
         local did = rows_of(statement)
         local text, length = write(did, moment(statement))
         local from = shared.now()
         local _, refused = statements.execute(text, length)
         add(from, shared.now(), due, did, refused)
         shared.report(client, shared.INSERTED, statement)
      end
      statement = statement + 1
   end
   if deadline > 0 then
      wait() -- to the end of the last second
   end
   return finish
end

-- As many statements as are inserted, each of the oldest rows.
function writing.delete(client, origin)
   local limit = limiter(origin)
   local wait, near = limit or at_once, near(client, shared.INSERTED)
   local add, finish = counters(client, "delete", origin, limit)
   local form = statements.with(sysbench.opt.delete,
      {table = statements.table_of(client), low = "%.0f", rows = "%d"})
   local statement, low, due = 1, 0, origin
   while statement <= shared.get(client, shared.LAST) do
      if shared.get(client, shared.LAST) == all_statements() then -- else it is late enough
         due = wait()
      end
      near(statement)
      if (statement - 1) % LOOK_UP_EVERY == 0 then
         low = statements.end_of_ids(client, "MIN")
         shared.set(client, shared.LOW, low)
      end
      if statement <= shared.get(client, shared.LAST) then
         local did = rows_of(statement)
         local text = form:format(low, did)
         local from = shared.now()
         local _, refused = statements.execute(text)
         add(from, shared.now(), due, did, refused)
         low = low + did
         shared.set(client, shared.LOW, low)
         shared.report(client, shared.DELETED, statement)
      end
      statement = statement + 1
   end
   if shared.get(client, shared.LAST) == all_statements() then
      wait()
   end
   return finish
end

-- The indexes of a client's table; of a shared one the first client makes them, when all rows are in.
function writing.make_indexes(client, origin)
   local opt = sysbench.opt
   if opt.shared_table then
      if client > 0 then
         return
      end
      for other = 0, opt.clients - 1 do
         while shared.get(other, shared.INSERTED) < all_statements() do
            shared.nap(1000)
         end
      end
   end
   local counted = counter.new(client, "index", origin)
   local from = shared.now()
   local _, refused = statements.execute(statements.with(opt.indexes, {table = statements.table_of(client)}))
   local to = shared.now()
   counted.add(to, (to - from) / 1e3, opt.indexed_rows, refused, 0)
   return counted.finish
end

return writing
