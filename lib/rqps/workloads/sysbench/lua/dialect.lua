-- The differences between the drivers of sysbench, and between their servers.

local ffi = require("ffi")

local mysql = {
   id = "INTEGER NOT NULL AUTO_INCREMENT",
   stored = "ENGINE = InnoDB",
   analyze = "ANALYZE TABLE",
   text = "CHAR",
   begins = "SET NAMES utf8mb4",
}

-- The driver gives each new connection the next socket of its list, whichever thread asks: threads connect one by
-- one.
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

-- No server can prepare BEGIN: the driver would try to, and then send it as text.
function mysql.prepares(parsed) return parsed.text[1] ~= "BEGIN" end

function mysql.mark() end

function mysql.spelled(sql) return sql end

-- The driver prepares a statement when values are first bound, so never if there are none. A text bound as CHAR would
-- be cut to one character. Each connection has a server process of its own.
local pgsql = {id = "SERIAL", stored = "", analyze = "VACUUM (ANALYZE)", text = "VARCHAR", process_each = true,
   begins = "SET client_encoding = 'UTF8'"}

-- The driver takes a single host; without one, libpq reads it from the environment.
function pgsql.connect(driver, socket)
   ffi.C.setenv("PGHOST", socket:match("^(.*)/"), 1)
   return driver:connect()
end

function pgsql.process_of(connection)
   return connection:query_row("SELECT pg_backend_pid()")
end

-- A statement may take a user's text value as a date or a number, which a value bound as VARCHAR can't be.
function pgsql.prepares(parsed)
   for _, maker in ipairs(parsed.makers) do
      if type(maker) == "table" and maker.form then
         return false
      end
   end
   return #parsed.makers > 0
end

-- Callgrind writes its counts before each call of this function in the server.
function pgsql.mark(connection) connection:query("SELECT pg_sleep(0)") end

-- PostgreSQL takes an id of 0 as it is, and DEFAULT for the next id.
function pgsql.spelled(sql) return (sql:gsub("VALUES %(0,", "VALUES (DEFAULT,")) end

local drivers = {mysql = mysql, pgsql = pgsql}

return setmetatable({}, {__index = function(_, name) -- the options are read after the scripts
   return drivers[sysbench.opt.db_driver][name]
end})
