-- When a client's next statement may begin.

local shared = require("shared")

local pace = {}

local MOST_APART, NEAR_AGAIN = 8, 4 -- statements
local SHORTEST_INTERVAL = 0.95 -- of a second: after a longer one the limiter lets the next begin at once

pace.MOST_APART = MOST_APART

-- Statements in which a client inserts all its rows, and the rows of one of them.
function pace.statements()
   return math.ceil(sysbench.opt.rows / sysbench.opt.rows_per_transaction)
end

function pace.rows_of(statement)
   local each = sysbench.opt.rows_per_transaction
   return math.min(each, sysbench.opt.rows - (statement - 1) * each)
end

-- A function that waits until the next statement is due, and gives that moment: what belongs to a second is due at
-- its beginning. Nil where there is no limit.
function pace.limiter(origin)
   if sysbench.opt.rows_per_second == 0 then
      return nil
   end
   local each_second = sysbench.opt.rows_per_second / sysbench.opt.rows_per_transaction
   local began, done = origin, 0
   return function()
      if done == each_second then
         local next_begins = began + 1e9
         local now = shared.now()
         if sysbench.opt.catching_up or now - began < SHORTEST_INTERVAL * 1e9 then
            shared.sleep_until(next_begins)
            began = next_begins
         else
            began = now
         end
         done = 0
      end
      done = done + 1
      return began
   end
end

-- Waits until the other thread of a client has come near to a statement that this one is about to do.
function pace.near(client, other)
   return function(statement)
      if statement - shared.get(client, other) > MOST_APART then
         shared.wait_for(client, other, statement - NEAR_AGAIN)
      end
   end
end

return pace
