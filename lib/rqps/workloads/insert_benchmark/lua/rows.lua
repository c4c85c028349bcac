-- Rows as text, each drawn from the seed of its client and from nothing else: the same seed gives the same rows.
--
-- They are written into one buffer, some bytes at once and without a branch, as digits.lua does. The time that this
-- takes is the load generator's own.

local bit = require("bit")
local ffi = require("ffi")

local digits = require("digits")

local rows = {}

local REGISTERS, CUSTOMERS, PRODUCTS, PRICES = 1000, 100000, 10000, 500
rows.REGISTERS, rows.PRODUCTS, rows.PRICES = REGISTERS, PRODUCTS, PRICES

local SHORTEST, LONGEST, RANDOM_SHARE = 10, 20, 0.75 * 0.5 -- of `data`
local LONGEST_ROW = 80 -- and what is written beyond it

local TWO, EIGHT = ffi.typeof("uint16_t *"), ffi.typeof("uint64_t *")

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
         at = digits.put_below_1000(buffer, at + 24, below(REGISTERS))
         buffer[at] = COMMA
         at = digits.put_below_1000000(buffer, at + 1, below(CUSTOMERS))
         buffer[at] = COMMA
         at = digits.put_below_1000000(buffer, at + 1, below(PRODUCTS))
         buffer[at] = COMMA
         at = digits.put_below_1000(buffer, at + 1, below(PRICES))
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
