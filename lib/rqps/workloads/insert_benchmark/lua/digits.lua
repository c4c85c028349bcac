-- Whole numbers as text, written into a buffer some bytes at once and without a branch: what follows is written over
-- what was too much. Each function gives where the number ends.

local ffi = require("ffi")

local digits = {}

local FOUR = ffi.typeof("uint32_t *")

-- The digits of what is below 1000, four bytes each, and how many there are: of a number alone; from 1000 on, behind
-- thousands, with zeros in front; and of thousands, where 0 has none.
local written, lengths = ffi.new("uint32_t[2000]"), ffi.new("uint8_t[2000]")
local thousands_lengths = ffi.new("uint8_t[1000]")
for number = 0, 999 do
   ffi.copy(written + number, tostring(number))
   ffi.copy(written + 1000 + number, ("%03d"):format(number))
   lengths[number], lengths[1000 + number] = #tostring(number), 3
   thousands_lengths[number] = number > 0 and #tostring(number) or 0
end

function digits.put_below_1000(buffer, at, number)
   ffi.cast(FOUR, buffer + at)[0] = written[number]
   return at + lengths[number]
end

function digits.put_below_1000000(buffer, at, number)
   local thousands = math.floor(number / 1000)
   ffi.cast(FOUR, buffer + at)[0] = written[thousands]
   at = at + thousands_lengths[thousands]
   local rest = number - 1000 * thousands + 1000 * math.min(1, thousands)
   ffi.cast(FOUR, buffer + at)[0] = written[rest]
   return at + lengths[rest]
end

-- Of any size.
function digits.put(buffer, at, number)
   if number < 1000000 then
      return digits.put_below_1000000(buffer, at, number)
   end
   local millions = math.floor(number / 1000000)
   at = digits.put(buffer, at, millions)
   local rest = number - 1000000 * millions
   local thousands = math.floor(rest / 1000)
   ffi.cast(FOUR, buffer + at)[0] = written[1000 + thousands]
   ffi.cast(FOUR, buffer + at + 3)[0] = written[1000 + rest - 1000 * thousands]
   return at + 6
end

return digits
