-- What a client asks while it writes: one query after the other, until all clients have written.

local ffi = require("ffi")

local measuring = require("measuring")
local rows = require("rows")
local shared = require("shared")
local statements = require("statements")

local HIGHEST_EVERY = 100 -- point queries
local LOOK_NS = 1e6 -- for whether all is written
local LONGEST_NUMBER = 24 -- with what is between two
local COMMA, SPACE = (","):byte(), (" "):byte()

-- A function that writes ids between the ends of a client's table.
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

-- A function that writes a whole number below this one.
local function number(most, below)
   return function(buffer, at) return rows.put_number(buffer, at, below(most)) end
end

-- A function that makes one query, by its text with one value in braces: a buffer, and the length of its text.
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

-- `writers` are the threads of each client that write.
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
