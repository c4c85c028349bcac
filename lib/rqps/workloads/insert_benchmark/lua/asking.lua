-- The queries of a client: one after the other, while the clients write and until all of them have written.

local ffi = require("ffi")

local measuring = require("measuring")
local rows = require("rows")
local shared = require("shared")
local statements = require("statements")

local HIGHEST_EVERY = 100 -- point queries: the highest id is read again after so many
local LOOK_NS = 1e6 -- time between checks whether all clients have written
local LONGEST_NUMBER = 24 -- including the separator between two numbers
local COMMA, SPACE = (","):byte(), (" "):byte()

-- Returns a function that writes random ids between the lowest and the highest of a client's table.
local function ids(client, below)
   local highest, made = 0, 0
   return function(buffer, at)
      if made % HIGHEST_EVERY == 0 then
         highest = statements.end_of_ids(client, "MAX")
      end
      made = made + 1
      local low = shared.get(client, shared.LOW)
      for i = 1, sysbench.opt.query_rows do
         if i > 1 then
            buffer[at], buffer[at + 1] = COMMA, SPACE
            at = at + 2
         end
         at = rows.put_number(buffer, at, low + below(math.max(1, highest - low)))
      end
      return at
   end
end

-- Returns a function that writes a random whole number below `most`.
local function number(most, below)
   return function(buffer, at) return rows.put_number(buffer, at, below(most)) end
end

-- Returns a function that makes one query from `text`, which has one marker in braces: it returns a buffer and the
-- length of the query in it.
local function maker(text, client, below)
   local writers = {
      product = number(rows.PRODUCTS, below),
      register = number(rows.REGISTERS, below),
      price = number(rows.PRICES, below),
      ids = ids(client, below),
   }
   text = statements.with(text,
      {table = statements.table_of(client), rows = tostring(sysbench.opt.query_rows)})
   local before, name, after = text:match("^(.-){(%w+)}(.*)$")
   local write, head, tail = writers[name], #before, #after
   local buffer = ffi.new("uint8_t[?]", head + LONGEST_NUMBER * sysbench.opt.query_rows + tail)
   ffi.copy(buffer, before, head)
   return function()
      local at = write(buffer, head)
      ffi.copy(buffer + at, after, tail)
      return buffer, at + tail
   end
end

-- Runs the queries of a client. `writers` is the number of threads of each client that write.
local function ask(client, origin, writers)
   local opt = sysbench.opt
   local below = rows.source(opt.rand_seed, opt.clients + client)
   local makers = {}
   for text in opt.queries:gmatch("[^;]+") do
      makers[#makers + 1] = maker(text, client, below)
   end
   local counted = measuring.counter(client, "query", origin)
   local to = measuring.now()
   local look_at = to
   while to < look_at or not shared.all_done(opt.clients, writers) do
      if to >= look_at then
         shared.check()
         look_at = to + LOOK_NS
      end
      local text, length = makers[1 + below(#makers)]()
      local from = measuring.now()
      local answer, refused = statements.execute(text, length)
      to = measuring.now()
      counted.add(to, (to - from) / 1e3, 1, refused, answer.nrows)
   end
   return counted.finish
end

return ask
