-- A transaction of a step: executes the statements that steps.yaml has for it, one after the other.
--
-- The markers of a statement stand for values, which are made anew for each execution, in the order of the markers.
local dialect = require("dialect")
local rqps = require("rqps")

local FORMS = {c = rqps.form(10), pad = rqps.form(5)} -- of random texts

local id, x -- the values that were drawn last

local makers = {
   id = function() id = rqps.random_id() return id end,
   ["same id"] = function() return id end,
   k = function() return rqps.random_id() end,
   x = function() x = rqps.random_id() return x end,
}

-- The makers of a marker's values: each is a function that returns a number, or the form of a random text.
local function values_of(marker)
   if makers[marker] or FORMS[marker] then
      return {makers[marker] or FORMS[marker]}
   end
   local distance = tonumber(marker:match("^x%+(%d+)$"))
   if distance then
      return {function() return x + distance end}
   end
   local count, hot = marker:match("^(%d+) (h?o?t? ?)ids$")
   if not count then
      error("no such marker: {" .. marker .. "}")
   end
   local values = {}
   for i = 1, tonumber(count) do
      if hot == "" then
         values[i] = makers.k
      else
         local hot_id = math.floor(sysbench.opt.table_size / 2) + i
         values[i] = function() return hot_id end
      end
   end
   return values
end

-- Splits a statement on one table into the texts around its values and the makers of the values.
local function parse(sql, number)
   local parsed = {text = {}, makers = {}}
   local text = ""
   local at = 1
   for before, marker, after in sql:gmatch("([^{]*){([^}]*)}()") do
      text, at = text .. before, after
      if marker == "table" or marker == "own table" then
         text = text .. rqps.table_name(number)
      else
         for i, maker in ipairs(values_of(marker)) do
            local place = #parsed.makers + 1
            parsed.text[place], text = (i > 1 and ", " or text), ""
            parsed.makers[place] = maker
         end
      end
   end
   parsed.text[#parsed.makers + 1] = text .. sql:sub(at)
   return parsed
end

local last_table = 1

-- Returns a function that executes a statement `repeats` times.
local function runner(thread, repeats, sql)
   local on = {}
   for number = 1, sysbench.opt.tables do
      on[number] = rqps.statement(parse(dialect.spelled(sql), number))
   end
   if sql:find("{same id}", 1, true) then
      return function() on[last_table]() end
   elseif sql:find("{own table}", 1, true) then
      local own = on[thread % sysbench.opt.tables + 1]
      return own
   elseif not sql:find("{table}", 1, true) then
      return on[1]
   end
   local random_table = rqps.random_table
   if repeats == 1 then
      return function()
         last_table = random_table()
         on[last_table]()
      end
   end
   return function()
      last_table = random_table()
      local run = on[last_table]
      for _ = 1, repeats do
         run()
      end
   end
end

-- Returns a function that executes one transaction on the open connection.
function rqps.declare(thread)
   local transaction = {}
   for line in sysbench.opt.statements:gmatch("[^;]+") do
      local repeats, sql = line:match("^(%d+) x (.*)$")
      transaction[#transaction + 1] = runner(thread, tonumber(repeats or 1), sql or line)
   end
   if #transaction == 1 then
      return transaction[1]
   end
   return function()
      for i = 1, #transaction do
         transaction[i]()
      end
   end
end
