local function run(n) local d = {} for i = 0, n-1 do d["k" .. i] = i end for i = 0, n-1 do d["k" .. i] = nil end local c = 0 for _ in pairs(d) do c = c + 1 end return c end
print(run(tonumber(arg[1])))
