-- A user's own transactions, as the file of --program describes them: each has a weight, the values that it draws,
-- and its statements. Or the statements of a log, which are replayed in their order, again and again.
local dialect = require("dialect")
local rqps = require("rqps")

-- A value that each transaction draws: `draw` draws it, and `value` and `literal` give it to a statement. `chosen`
-- maps the number of each value to the position that was drawn in its list.
local function value_of(described, number, chosen)
   local items, literals, drawn = described.items, described.literals, 0
   local count = items and #items or described.to - described.from + 1
   local random = described.zipf and rqps.zipf(described.zipf, count)
      or function() return sysbench.rand.uniform(1, count) end
   local value = {form = described.form}
   if items then
      function value.draw()
         drawn = described.same_row_as and chosen[described.same_row_as] or random()
         chosen[number] = drawn
      end
      function value.value() return items[drawn] end
      function value.literal() return literals and literals[drawn] or items[drawn] end
   else
      local below = described.from - 1
      function value.draw() drawn = below + random() end
      function value.value() return drawn end
      function value.literal() return ("%d"):format(drawn) end
   end
   return value
end

local function rows_differ(statement, count)
   error(("%d rows came back, and %s were asked for: %s"):format(count, statement.asked, table.concat(statement.text, "?")), 0)
end

-- Returns a function that executes a statement and returns the number of rows that came back.
local function statement_of(described, values)
   local makers = {}
   for i, number in ipairs(described.values) do
      makers[i] = values[number]
   end
   local run = rqps.statement({text = described.text, makers = makers}, not described.prepared)
   local least, most = described.least, described.most
   return function()
      local result = run()
      local count = result ~= nil and tonumber(result.nrows) or 0
      if least and (count < least or count > most) then
         rows_differ(described, count)
      end
      return count
   end
end

local function transaction_of(described, values)
   local draws, statements = {}, {}
   for i, number in ipairs(described.draws) do
      draws[i] = values[number].draw
   end
   for i, statement in ipairs(described.statements) do
      statements[i] = statement_of(statement, values)
   end
   return function()
      local rows = 0
      for i = 1, #draws do
         draws[i]()
      end
      for i = 1, #statements do
         rows = rows + statements[i]()
      end
      return rows
   end
end

-- Returns a function that executes the next statement of a log. Each client begins at another position in the log.
local function next_of(log)
   local at = math.floor(#log / sysbench.opt.threads * sysbench.tid)
   local statements = {}
   for i, text in ipairs(log) do
      statements[i] = statement_of({text = {text}, values = {}, prepared = false}, {})
   end
   return function()
      at = at % #log + 1
      return statements[at]()
   end
end

-- Returns a function that executes one transaction on the open connection.
function rqps.declare()
   local program = dofile(sysbench.opt.program)
   local values, chosen, transactions, limits, total = {}, {}, {}, {}, 0
   for number, described in ipairs(program.values) do
      values[number] = value_of(described, number, chosen)
   end
   rqps.statement({text = {dialect.begins}, makers = {}}, true)()
   for i, described in ipairs(program.transactions) do
      total = total + described.weight
      transactions[i], limits[i] = transaction_of(described, values), total
   end
   if program.log then
      return next_of(program.log)
   end
   if #transactions == 1 then
      return transactions[1]
   end
   return function()
      local drawn, i = sysbench.rand.uniform(1, total), 1
      while drawn > limits[i] do
         i = i + 1
      end
      return transactions[i]()
   end
end
