local function run(n) local q = {} for i = 0, n-1 do q[#q+1] = i end local s = 0 while #q > 0 do s = s + q[#q] q[#q] = nil end return s end
print(run(tonumber(arg[1])))
