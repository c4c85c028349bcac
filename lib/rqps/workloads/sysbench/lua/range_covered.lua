-- A range of the primary key or of the secondary index, read from the index alone. Both ends belong to it: a range
-- size of 100 reads 101 values, as in the published tests.
local rqps = require("rqps")

local select_range = {
   id = rqps.statement("SELECT id FROM {table} WHERE id BETWEEN ? AND ?"),
   k = rqps.statement("SELECT k FROM {table} WHERE k BETWEEN ? AND ?"),
}

function event()
   local from = rqps.random_id()
   select_range[sysbench.opt.column](rqps.random_table(), from, from + sysbench.opt.range_size)
end
