-- The connection of a thread, and the statements that the thread executes on it.

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

-- Replaces the markers in braces of a statement by their values.
function statements.with(text, values)
   return (text:gsub("{(%w+)}", values))
end

-- Does the same as connection:query, but also takes a text in a buffer. Lua interns strings, and its hash is the same
-- for very many texts that differ only in the middle, so that each text would be compared with all of these. Some
-- drivers read a text up to a closing zero.
local function query(text, length)
   if type(text) == "cdata" then
      text[length] = 0
   end
   return connection:check_error(ffi.C.db_query(connection, text, length), text)
end

-- Repeats a refused statement until the server accepts it. Returns the server's answer and the number of refusals.
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

-- Executes a statement, which is a string or the first `length` bytes of a buffer; repeats it if the server refused
-- it for a temporary reason, such as a deadlock. Any other error ends the step. Returns the server's answer and the
-- number of refusals. It has no loop of its own, since LuaJIT does not compile a loop that contains another one.
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
