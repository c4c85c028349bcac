-- An indexed column of one row is counted up.
local rqps = require("rqps")

local update_row = rqps.statement("UPDATE {table} SET k = k + 1 WHERE id = ?")

function event()
   update_row(rqps.random_table(), rqps.random_id())
end
