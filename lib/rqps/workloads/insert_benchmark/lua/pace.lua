-- When a client's next statement may begin.

local shared = require("shared")

local pace = {}

local MOST_APART, NEAR_AGAIN = 8, 4 -- statements
local SHORTEST_INTERVAL = 0.95 -- of a second: after a longer one the limiter lets the next begin at once
local SHORTEST_NAP_US, LONGEST_NAP_US = 20, 10000

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

-- A function that waits until the other thread of a client has come near to a statement that this one is about to do.
-- It sleeps for most of the time that this took before, since every look takes time of the CPU.
function pace.near(client, other)
   local expected_us = SHORTEST_NAP_US
   return function(statement)
      if statement - shared.get(client, other) > MOST_APART then
         local from = shared.now()
         local nap_us = 0.75 * expected_us
         repeat
            shared.nap(math.max(SHORTEST_NAP_US, math.min(nap_us, LONGEST_NAP_US)))
            nap_us = expected_us / 4
         until statement - shared.get(client, other) <= NEAR_AGAIN
         expected_us = (3 * expected_us + (shared.now() - from) / 1e3) / 4
      end
   end
end

return pace
