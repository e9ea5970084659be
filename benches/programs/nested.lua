local function run(n)
  local root = {}
  for i = 0, n-1 do
    local a, b = "a" .. (i % 100), "b" .. (i % 1000)
    if root[a] == nil then root[a] = {} end
    if root[a][b] == nil then root[a][b] = {count = 0, items = {}} end
    root[a][b].count = root[a][b].count + 1
    local t = root[a][b].items t[#t+1] = i
  end
  local s = 0
  for k, v in pairs(root) do for k2, v2 in pairs(v) do s = s + v2.count * #v2.items end end
  return s
end
print(run(tonumber(arg[1])))
