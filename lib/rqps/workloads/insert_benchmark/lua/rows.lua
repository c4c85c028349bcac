-- Rows as text, each drawn from the seed of its client and from nothing else: the same seed gives the same rows.
--
-- They are written digit by digit into one buffer, since the time that this takes is the load generator's own.

local bit = require("bit")
local ffi = require("ffi")

local rows = {}

local REGISTERS, CUSTOMERS, PRODUCTS, PRICES = 1000, 100000, 10000, 500
rows.REGISTERS, rows.PRODUCTS, rows.PRICES = REGISTERS, PRODUCTS, PRICES

local SHORTEST, LONGEST, RANDOM_SHARE = 10, 20, 0.75 * 0.5 -- of `data`
local LONGEST_ROW = 80

-- ---------------------------------------------------------------------------------------------------------------
-- Random numbers
-- ---------------------------------------------------------------------------------------------------------------

-- Well mixed bits of a number: the finish of splitmix64.
local function mixed(number)
   local z = (number + 1) * 0x9E3779B97F4A7C15ULL
   z = bit.bxor(z, bit.rshift(z, 30)) * 0xBF58476D1CE4E5B9ULL
   z = bit.bxor(z, bit.rshift(z, 27)) * 0x94D049BB133111EBULL
   return bit.bxor(z, bit.rshift(z, 31))
end

local function word(number)
   return bit.tobit(tonumber(number % 0x100000000ULL))
end

-- Two functions that draw: whole numbers from 0 to below n, and 32 bits (xorshift128, Marsaglia 2003). Every `stream`
-- of a seed is another source.
function rows.source(seed, stream)
   local first = mixed(mixed(seed + 0ULL) + stream)
   local second = mixed(first)
   local x, y, z, w = word(first), word(bit.rshift(first, 32)), word(second), bit.bor(word(bit.rshift(second, 32)), 1)

   local function bits()
      local t = bit.bxor(x, bit.lshift(x, 11))
      x, y, z = y, z, w
      w = bit.bxor(w, bit.rshift(w, 19), t, bit.rshift(t, 8))
      return w
   end

   local function below(n)
      return math.floor((bits() + 2147483648) * (n / 4294967296))
   end

   return below, bits
end

-- ---------------------------------------------------------------------------------------------------------------
-- Text
-- ---------------------------------------------------------------------------------------------------------------

local ALPHABET = ffi.new("const uint8_t[65]", "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/")

-- The digits of every number below 1000, in four bytes each; and with zeros in front.
local digits, padded = ffi.new("uint32_t[1000]"), ffi.new("uint32_t[1000]")
for number = 0, 999 do
   ffi.copy(digits + number, tostring(number))
   ffi.copy(padded + number, ("%03d"):format(number))
end
local QUADS = ffi.typeof("uint32_t *")

-- Writes a number below a million, and returns where it ends.
local function put_number(buffer, at, number)
   if number >= 1000 then
      local thousands = math.floor(number / 1000)
      at = put_number(buffer, at, thousands)
      ffi.cast(QUADS, buffer + at)[0] = padded[number - 1000 * thousands]
      return at + 3
   end
   ffi.cast(QUADS, buffer + at)[0] = digits[number]
   return at + (number >= 100 and 3 or number >= 10 and 2 or 1)
end

local function put_text(buffer, at, text)
   ffi.copy(buffer + at, text, #text)
   return at + #text
end

local COMMA, LETTER = (","):byte(), ("a"):byte()

-- Writes letters a, and random ones at the end.
local function put_data(buffer, at, below, bits)
   local length = SHORTEST + below(LONGEST - SHORTEST + 1)
   local random = math.floor(length * RANDOM_SHARE)
   ffi.fill(buffer + at, length - random, LETTER)
   at = at + length - random
   local drawn = bits()
   for i = 0, random - 1 do
      if i == 5 then drawn = bits() end
      buffer[at + i] = ALPHABET[bit.band(drawn, 63)]
      drawn = bit.rshift(drawn, 6)
   end
   return at + random
end

-- A function that gives a statement of `count` rows, all of one moment.
function rows.writer(insert, most, below, bits)
   local head = #insert + 1
   local buffer = ffi.new("uint8_t[?]", head + LONGEST_ROW * most)
   ffi.copy(buffer, insert .. " ")
   return function(count, moment)
      local opening = "('" .. moment .. "',"
      local at = head
      for row = 1, count do
         if row > 1 then
            buffer[at] = COMMA
            at = at + 1
         end
         at = put_text(buffer, at, opening)
         at = put_number(buffer, at, below(REGISTERS))
         buffer[at] = COMMA
         at = put_number(buffer, at + 1, below(CUSTOMERS))
         buffer[at] = COMMA
         at = put_number(buffer, at + 1, below(PRODUCTS))
         buffer[at] = COMMA
         at = put_number(buffer, at + 1, below(PRICES))
         at = put_text(buffer, at, ".00,'")
         at = put_data(buffer, at, below, bits)
         at = put_text(buffer, at, "')")
      end
      return ffi.string(buffer, at)
   end
end

return rows
