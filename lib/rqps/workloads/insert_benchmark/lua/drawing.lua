-- Random numbers of a seed and of nothing else.

local bit = require("bit")

local drawing = {}

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
function drawing.source(seed, stream)
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

return drawing
