-- What the drivers of sysbench, and the servers behind them, have of their own.

local ffi = require("ffi")

local mysql = {
   id = "INTEGER NOT NULL AUTO_INCREMENT",
   stored = "ENGINE = InnoDB",
   analyze = "ANALYZE TABLE",
   text = "CHAR",
   begins = "SET NAMES utf8mb4",
}

-- The driver gives each new connection the next socket of its list, whichever thread asks for it: one at a time does.
function mysql.connect(driver, socket, others)
   while not others[socket] do
      local new = driver:connect()
      local its = new:query_row("SELECT @@socket")
      if others[its] then
         new:disconnect()
      else
         others[its] = new
      end
   end
   return others[socket]
end

-- All connections are served by one process.
function mysql.process_of(_, pid) return pid end

-- No server prepares BEGIN; the driver would send it as text after asking in vain.
function mysql.prepares(parsed) return parsed.text[1] ~= "BEGIN" end

function mysql.mark() end

function mysql.spelled(sql) return sql end

-- Its driver prepares with the first values that are bound: without any it never does. A text bound as CHAR would be
-- one character. The process that serves a connection serves no other.
local pgsql = {id = "SERIAL", stored = "", analyze = "VACUUM (ANALYZE)", text = "VARCHAR", process_each = true,
   begins = "SET client_encoding = 'UTF8'"}

-- The driver takes one host; without one, libpq asks the environment.
function pgsql.connect(driver, socket)
   ffi.C.setenv("PGHOST", socket:match("^(.*)/"), 1)
   return driver:connect()
end

function pgsql.process_of(connection)
   return connection:query_row("SELECT pg_backend_pid()")
end

-- A text of one's own may be a date or a number to the statement, which as VARCHAR it would not be.
function pgsql.prepares(parsed)
   for _, maker in ipairs(parsed.makers) do
      if type(maker) == "table" and maker.form then
         return false
      end
   end
   return #parsed.makers > 0
end

-- Callgrind writes what it has counted before each call of this function.
function pgsql.mark(connection) connection:query("SELECT pg_sleep(0)") end

-- There an id of 0 is an id.
function pgsql.spelled(sql) return (sql:gsub("VALUES %(0,", "VALUES (DEFAULT,")) end

local drivers = {mysql = mysql, pgsql = pgsql}

return setmetatable({}, {__index = function(_, name) -- the options are read after the scripts
   return drivers[sysbench.opt.db_driver][name]
end})
