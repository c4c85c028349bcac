-- Makes rows as text. They depend only on the seed and the number of the client: the same seed gives the same rows.
--
-- Rows are written into one buffer, several bytes at once and without branches: surplus bytes are overwritten by what
-- follows. The time that this takes counts as the load generator's.

local bit = require("bit")
local ffi = require("ffi")

local rows = {}

local REGISTERS, CUSTOMERS, PRODUCTS, PRICES = 1000, 100000, 10000, 500
rows.REGISTERS, rows.PRODUCTS, rows.PRICES = REGISTERS, PRODUCTS, PRICES

local SHORTEST, LONGEST, RANDOM_SHARE = 10, 20, 0.75 * 0.5 -- of `data`
local LONGEST_ROW = 80 -- including surplus bytes that are written beyond its end

local TWO, EIGHT = ffi.typeof("uint16_t *"), ffi.typeof("uint64_t *")
local FOUR = ffi.typeof("uint32_t *")

-- Maps numbers below 1000 to their digits, in four bytes each, and to the number of digits: at 0 to 999 without
-- leading zeros, at 1000 to 1999 with leading zeros, to follow thousands. As thousands, 0 has no digits.
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

-- Writes a whole number of any size.
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

-- Mixes the bits of a number: the last part of splitmix64.
local function mixed(number)
   local z = (number + 1) * 0x9E3779B97F4A7C15ULL
   z = bit.bxor(z, bit.rshift(z, 30)) * 0xBF58476D1CE4E5B9ULL
   z = bit.bxor(z, bit.rshift(z, 27)) * 0x94D049BB133111EBULL
   return bit.bxor(z, bit.rshift(z, 31))
end

local function word(number)
   return bit.tobit(tonumber(number % 0x100000000ULL))
end

-- Returns two functions that draw: whole numbers from 0 to below n, and 32 random bits (xorshift128, Marsaglia 2003).
-- Each `stream` of a seed is another sequence.
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

-- Maps 12 bits to two letters of the alphabet.
local ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
local pairs_of_letters = ffi.new("uint16_t[4096]")
for number = 0, 4095 do
   local first, second = number % 64 + 1, math.floor(number / 64) + 1
   ffi.copy(pairs_of_letters + number, ALPHABET:sub(first, first) .. ALPHABET:sub(second, second), 2)
end

-- Maps the length of `data` to the number of its random letters.
local random_letters = ffi.new("uint8_t[?]", LONGEST + 1)
for length = SHORTEST, LONGEST do
   random_letters[length] = math.floor(length * RANDOM_SHARE)
end

local function eight_bytes(text)
   return ffi.cast(EIGHT, ffi.cast("const uint8_t *", text))[0]
end

local ALIKE, AFTER_PRICE, CLOSING = eight_bytes("aaaaaaaa"), eight_bytes(".00,'..."), 0x2927 -- CLOSING is ')
local COMMA, SPACE = (","):byte(), (" "):byte()

local function put_two_letters(buffer, at, drawn)
   ffi.cast(TWO, buffer + at)[0] = pairs_of_letters[bit.band(drawn, 4095)]
end

-- Writes `data`: letters a, and random letters at the end.
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

-- Returns a function that makes an INSERT of `count` rows with the same timestamp: it returns the buffer, and the
-- length of the statement in it.
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
