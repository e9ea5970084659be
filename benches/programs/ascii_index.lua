local function run(n) local s = ("abcdefghij"):rep(n // 10) local c, i = 0, 1 while i <= #s do if s:sub(i, i) == "a" then c = c + 1 end i = i + 1 end return c end
print(run(tonumber(arg[1])))
