local function run(n) local s, c = {}, 0 for i = 0, n-1 do local k = (i * 7919) % 100003 if not s[k] then s[k] = true c = c + 1 end end
local hits = 0 for i = 0, n-1 do if s[i] then hits = hits + 1 end end return c .. " " .. hits end
print(run(tonumber(arg[1])))
