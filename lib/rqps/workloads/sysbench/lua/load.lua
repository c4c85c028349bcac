-- Creates and fills the tables, in the order of ids and from one thread, so that a seed always gives the same bytes.
local dialect = require("dialect")
local rqps = require("rqps")
local C, PAD = rqps.form(10), rqps.form(5)

local function create_index(connection, number)
   connection:query(("CREATE INDEX k_%d ON %s (k)"):format(number, rqps.table_name(number)))
end

local function load_table(connection, number)
   local name = rqps.table_name(number)
   connection:query(([[
      CREATE TABLE %s (
         id %s,
         k INTEGER NOT NULL DEFAULT 0,
         c CHAR(120) NOT NULL DEFAULT '',
         pad CHAR(60) NOT NULL DEFAULT '',
         PRIMARY KEY (id)
      ) %s]]):format(name, dialect.id, dialect.stored))
   if sysbench.opt.index_first then
      create_index(connection, number)
   end
   connection:bulk_insert_init("INSERT INTO " .. name .. " (k, c, pad) VALUES")
   for _ = 1, sysbench.opt.table_size do
      connection:bulk_insert_next(("(%d, '%s', '%s')"):format(
         rqps.random_id(), sysbench.rand.string(C), sysbench.rand.string(PAD)))
   end
   connection:bulk_insert_done()
   if not sysbench.opt.index_first then
      create_index(connection, number)
   end
   connection:query(dialect.analyze .. " " .. name)
end

-- Loads in a `run` of sysbench, since sysbench seeds random numbers only in the threads of a run.
function thread_run()
   local connection = sysbench.sql.driver():connect()
   for number = 1, sysbench.opt.tables do
      load_table(connection, number)
   end
   connection:disconnect()
end

function thread_init() end
function thread_done() end
function event() end -- sysbench does not run without one
