-- A thread's connection, and what it does on it.

local shared = require("shared")

local statements = {}

local connection

function statements.connect()
   connection = sysbench.sql.driver():connect()
end

function statements.disconnect()
   connection:disconnect()
end

function statements.table_of(client)
   return "pi" .. (sysbench.opt.shared_table and 1 or client + 1)
end

-- A statement with what stands in braces in place.
function statements.with(text, values)
   return (text:gsub("{(%w+)}", values))
end

local function query(text)
   return connection:query(text)
end

-- A statement that was refused, until it is not. Gives what the server answered, and how often it had refused.
local function again(text, problem)
   local refused = 0
   while type(problem) == "table" and problem.errcode == sysbench.error.RESTART_EVENT do
      refused = refused + 1
      shared.check()
      local done, answer = pcall(query, text)
      if done then
         return answer, refused
      end
      problem = answer
   end
   error(problem, 0)
end

-- Does a statement; again if the server refused it for a reason that goes away, such as a deadlock. Any other error
-- ends the step. Gives what the server answered, and how often it had refused. It has no loop of its own, since around
-- one LuaJIT compiles no other.
function statements.execute(text)
   local done, answer = pcall(query, text)
   if done then
      return answer, 0
   end
   return again(text, answer)
end

-- The lowest or the highest id of a client's table.
function statements.end_of_ids(client, which)
   local found = connection:query_row(("SELECT %s(transactionid) FROM %s"):format(which, statements.table_of(client)))
   return tonumber(found) or 0
end

return statements
