local function run(n) local o = {a = 1, b = {c = 2, l = {1, 2, 3}}}
for i = 0, n-1 do o.a = o.a + 1 o.b.c = o.b.c + o.a o.b.l[i % 3 + 1] = i end
return "{a: " .. o.a .. ", b: {c: " .. o.b.c .. ", l: [" .. table.concat(o.b.l, ", ") .. "]}}" end
print(run(tonumber(arg[1])))
