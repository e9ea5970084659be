local function run(n)
  local recs, x = {}, 12345
  for i = 0, n-1 do
    x = (x * 1103515245 + 12345) % 2147483648
    recs[#recs+1] = {id = i, key = x, name = "n" .. (x % 1000)}
  end
  table.sort(recs, function(a, b) return a.key < b.key end)
  return recs[1].key .. " " .. recs[n // 2 + 1].key .. " " .. recs[n].key
end
print(run(tonumber(arg[1])))
