-- What a client asks while it writes: one query after the other, until all clients have written.

local counter = require("counter")
local rows = require("rows")
local shared = require("shared")
local statements = require("statements")

local HIGHEST_EVERY = 100 -- point queries
local LOOK_NS = 1e6 -- for whether all is written

-- A function that draws ids between the ends of a client's table.
local function ids(client, below)
   local highest, made = 0, 0
   return function()
      if made % HIGHEST_EVERY == 0 then
         highest = statements.end_of_ids(client, "MAX")
      end
      made = made + 1
      local low, drawn = shared.get(client, shared.LOW), {}
      for i = 1, sysbench.opt.query_rows do
         drawn[i] = low + below(math.max(1, highest - low))
      end
      return table.concat(drawn, ", ")
   end
end

-- A function that makes one query, by its text with one value in braces.
local function maker(text, client, below)
   local drawn = {
      product = function() return below(rows.PRODUCTS) end,
      register = function() return below(rows.REGISTERS) end,
      price = function() return below(rows.PRICES) end,
      ids = ids(client, below),
   }
   text = statements.with(text,
      {table = statements.table_of(client), rows = tostring(sysbench.opt.query_rows)})
   local before, name, after = text:match("^(.-){(%w+)}(.*)$")
   local draw = drawn[name]
   return function() return before .. draw() .. after end
end

-- `writers` are the threads of each client that write.
local function ask(client, origin, writers)
   local opt = sysbench.opt
   local below = rows.source(opt.row_seed, opt.clients + client)
   local makers = {}
   for text in opt.queries:gmatch("[^;]+") do
      makers[#makers + 1] = maker(text, client, below)
   end
   local counted = counter.new(client, "query", origin)
   local to = shared.now()
   local look_at = to
   while to < look_at or not shared.all_done(opt.clients, writers) do
      if to >= look_at then
         shared.check()
         look_at = to + LOOK_NS
      end
      local text = makers[1 + below(#makers)]()
      local from = shared.now()
      local answer, refused = statements.execute(text)
      to = shared.now()
      counted.add(to, (to - from) / 1e3, 1, refused, answer.nrows)
   end
   return counted.finish
end

return ask
