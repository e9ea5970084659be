local function nums(n) return coroutine.wrap(function() for i = 0, n-1 do coroutine.yield(i) end end) end
local function sq(src) return coroutine.wrap(function() for x in src do coroutine.yield(x * x) end end) end
local function odd(src) return coroutine.wrap(function() for x in src do if x % 2 == 1 then coroutine.yield(x) end end end) end
local function run(n) local s = 0 for x in odd(sq(nums(n))) do s = s + x end return s end
print(run(tonumber(arg[1])))
