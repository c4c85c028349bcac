-- One row by its primary key.
local rqps = require("rqps")

local select_row = rqps.statement("SELECT c FROM {table} WHERE id = ?")

function event()
   select_row(rqps.random_table(), rqps.random_id())
end
