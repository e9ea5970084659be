local counts, nk = {}, 0
for line in io.lines(arg[2]) do
  for w in line:gmatch("[^ ]+") do local c = counts[w] if not c then nk = nk + 1 counts[w] = 1 else counts[w] = c + 1 end end
end
local best, most = "", 0
for k, v in pairs(counts) do if v > most or (v == most and k < best) then most = v best = k end end
print(nk .. " " .. best .. " " .. most)
