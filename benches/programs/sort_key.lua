local function run(n)
  local records = {}
  for i = 1, n do
    records[#records + 1] = { id = i, score = i * 7368787 % 15485863 }
  end
  table.sort(records, function(a, b) return a.score < b.score end)
  local check = 0
  for place, r in ipairs(records) do
    check = (check * 31 + r.id * place) % 1000003
  end
  return check
end

print(run(tonumber(arg[1])))
