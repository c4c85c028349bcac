-- A thread's connection, and what it does on it.

local ffi = require("ffi")

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

-- What connection:query does, for the text in a buffer too. Lua would keep a string of each, and look for it among all
-- that are the same to its hash, which for texts that differ in the middle are very many. Some drivers read a text to
-- its closing zero.
local function query(text, length)
   if type(text) == "cdata" then
      text[length] = 0
   end
   return connection:check_error(ffi.C.db_query(connection, text, length), text)
end

-- A statement that was refused, until it is not. Gives what the server answered, and how often it had refused.
local function again(text, length, problem)
   local refused = 0
   while type(problem) == "table" and problem.errcode == sysbench.error.RESTART_EVENT do
      refused = refused + 1
      shared.check()
      local done, answer = pcall(query, text, length)
      if done then
         return answer, refused
      end
      problem = answer
   end
   error(problem, 0)
end

-- Does a statement, which is a string or so many bytes of a buffer; again if the server refused it for a reason that
-- goes away, such as a deadlock. Any other error ends the step. Gives what the server answered, and how often it had
-- refused. It has no loop of its own, since around one LuaJIT compiles no other.
function statements.execute(text, length)
   length = length or #text
   local done, answer = pcall(query, text, length)
   if done then
      return answer, 0
   end
   return again(text, length, answer)
end

-- The lowest or the highest id of a client's table.
function statements.end_of_ids(client, which)
   local found = connection:query_row(("SELECT %s(transactionid) FROM %s"):format(which, statements.table_of(client)))
   return tonumber(found) or 0
end

return statements
