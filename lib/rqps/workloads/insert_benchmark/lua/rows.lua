-- Rows as text, each drawn from the seed of its client and from nothing else: the same seed gives the same rows.
--
-- They are written into one buffer, some bytes at once and without a branch: what follows is written over what was too
-- much. The time that this takes is the load generator's own.

local bit = require("bit")
local ffi = require("ffi")

local rows = {}

local REGISTERS, CUSTOMERS, PRODUCTS, PRICES = 1000, 100000, 10000, 500
rows.REGISTERS, rows.PRODUCTS, rows.PRICES = REGISTERS, PRODUCTS, PRICES

local SHORTEST, LONGEST, RANDOM_SHARE = 10, 20, 0.75 * 0.5 -- of `data`
local LONGEST_ROW = 80 -- and what is written beyond it

local TWO, EIGHT = ffi.typeof("uint16_t *"), ffi.typeof("uint64_t *")
local FOUR = ffi.typeof("uint32_t *")

-- Whole numbers as text: the digits of what is below 1000, four bytes each, and how many there are. Of a number alone;
-- from 1000 on, behind thousands, with zeros in front; and of thousands, where 0 has none.
local written, lengths = ffi.new("uint32_t[2000]"), ffi.new("uint8_t[2000]")
local thousands_lengths = ffi.new("uint8_t[1000]")
for number = 0, 999 do
   ffi.copy(written + number, tostring(number))
   ffi.copy(written + 1000 + number, ("%03d"):format(number))
   lengths[number], lengths[1000 + number] = #tostring(number), 3
   thousands_lengths[number] = number > 0 and #tostring(number) or 0
end

local function put_below_1000(buffer, at, number)
   ffi.cast(FOUR, buffer + at)[0] = written[number]
   return at + lengths[number]
end

local function put_below_1000000(buffer, at, number)
   local thousands = math.floor(number / 1000)
   ffi.cast(FOUR, buffer + at)[0] = written[thousands]
   at = at + thousands_lengths[thousands]
   local rest = number - 1000 * thousands + 1000 * math.min(1, thousands)
   ffi.cast(FOUR, buffer + at)[0] = written[rest]
   return at + lengths[rest]
end

-- Of any size.
function rows.put_number(buffer, at, number)
   if number < 1000000 then
      return put_below_1000000(buffer, at, number)
   end
   local millions = math.floor(number / 1000000)
   at = rows.put_number(buffer, at, millions)
   local rest = number - 1000000 * millions
   local thousands = math.floor(rest / 1000)
   ffi.cast(FOUR, buffer + at)[0] = written[1000 + thousands]
   ffi.cast(FOUR, buffer + at + 3)[0] = written[1000 + rest - 1000 * thousands]
   return at + 6
end

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

-- Every two letters of the alphabet, for 12 bits.
local ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
local pairs_of_letters = ffi.new("uint16_t[4096]")
for number = 0, 4095 do
   local first, second = number % 64 + 1, math.floor(number / 64) + 1
   ffi.copy(pairs_of_letters + number, ALPHABET:sub(first, first) .. ALPHABET:sub(second, second), 2)
end

-- By the length of `data`, how many of its letters are random.
local random_letters = ffi.new("uint8_t[?]", LONGEST + 1)
for length = SHORTEST, LONGEST do
   random_letters[length] = math.floor(length * RANDOM_SHARE)
end

local function eight_bytes(text)
   return ffi.cast(EIGHT, ffi.cast("const uint8_t *", text))[0]
end

local ALIKE, AFTER_PRICE, CLOSING = eight_bytes("aaaaaaaa"), eight_bytes(".00,'..."), 0x2927 -- the last is ')
local COMMA, SPACE = (","):byte(), (" "):byte()

local function put_two_letters(buffer, at, drawn)
   ffi.cast(TWO, buffer + at)[0] = pairs_of_letters[bit.band(drawn, 4095)]
end

-- Letters a, and random ones at the end.
local function put_data(buffer, at, below, bits)
   local length = SHORTEST + below(LONGEST - SHORTEST + 1)
   local random = random_letters[length]
   ffi.cast(EIGHT, buffer + at)[0] = ALIKE
   ffi.cast(EIGHT, buffer + at + 8)[0] = ALIKE
   at = at + length - random
   local drawn = bits()
   put_two_letters(buffer, at, drawn)
   put_two_letters(buffer, at + 2, bit.rshift(drawn, 12))
   drawn = bits()
   put_two_letters(buffer, at + 4, drawn)
   put_two_letters(buffer, at + 6, bit.rshift(drawn, 12))
   return at + random
end

-- A function that gives a statement of `count` rows, all of one moment: the buffer, and the length of its text.
function rows.writer(insert, most, below, bits)
   local head = #insert
   local buffer = ffi.new("uint8_t[?]", head + LONGEST_ROW * most)
   local opening = ffi.new("uint8_t[24]")
   local three = ffi.cast(EIGHT, opening)
   ffi.copy(buffer, insert)
   return function(count, moment)
      ffi.copy(opening, ",('" .. moment .. "',", 24)
      local at = head
      for _ = 1, count do
         local to = ffi.cast(EIGHT, buffer + at)
         to[0], to[1], to[2] = three[0], three[1], three[2]
         at = put_below_1000(buffer, at + 24, below(REGISTERS))
         buffer[at] = COMMA
         at = put_below_1000000(buffer, at + 1, below(CUSTOMERS))
         buffer[at] = COMMA
         at = put_below_1000000(buffer, at + 1, below(PRODUCTS))
         buffer[at] = COMMA
         at = put_below_1000(buffer, at + 1, below(PRICES))
         ffi.cast(EIGHT, buffer + at)[0] = AFTER_PRICE
         at = put_data(buffer, at + 5, below, bits)
         ffi.cast(TWO, buffer + at)[0] = CLOSING
         at = at + 2
      end
      buffer[head] = SPACE -- instead of the first comma
      return buffer, at
   end
end

return rows
