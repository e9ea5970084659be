local memo = {}
local function f(n) if n < 2 then return n end local k = tostring(n) local m = memo[k] if m then return m end
local r = (f(n - 1) + f(n - 2)) % 1000007 memo[k] = r return r end
print(f(tonumber(arg[1])))
