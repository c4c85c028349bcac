-- One row, its id given by the server. Never prepared, as in the published test.
local rqps = require("rqps")

function event()
   rqps.query(("INSERT INTO %s (id, k, c, pad) VALUES (0, %d, '%s', '%s')"):format(
      rqps.table_name(rqps.random_table()), rqps.random_id(), rqps.digits(10), rqps.digits(5)))
end
