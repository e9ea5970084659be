local function run(n) local d = {} for i = 0, n-1 do d[(i * 31) % 5003] = i end local s = 0 for i = 0, n-1 do s = s + (d[i % 5003] or 0) end return s end
print(run(tonumber(arg[1])))
