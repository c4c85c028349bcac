-- One transaction of a step: its statements, as steps.yaml has them, one after the other.
--
-- A statement's markers stand for values that are made anew each time, in the order in which they stand.
local dialect = require("dialect")
local rqps = require("rqps")

local FORMS = {c = rqps.form(10), pad = rqps.form(5)} -- of text

local id, x -- the last ones drawn

local makers = {
   id = function() id = rqps.random_id() return id end,
   ["same id"] = function() return id end,
   k = function() return rqps.random_id() end,
   x = function() x = rqps.random_id() return x end,
}

-- What makes each value of a marker: a function that gives a number, or the form of a random text.
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

-- A statement on one table as text around its values: {text = {...}, makers = {...}}.
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

-- The function that does a statement as often as it is said to.
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

-- The function that does one transaction on the connection that is open.
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
