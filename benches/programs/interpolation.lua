local function run(n) local total = 0 for i = 0, n-1 do local s = "id=" .. i .. " x=" .. (i * 0.5) .. " name=" .. "abc" .. " ok=" .. tostring(i % 2 == 0) total = total + #s end return total end
print(run(tonumber(arg[1])))
