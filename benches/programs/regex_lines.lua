local function run(n)
  local hits, total = 0, 0
  for i = 0, n-1 do
    local line = "2024-01-" .. (i % 28 + 1) .. " level=INFO user=u" .. i .. " took=" .. (i % 977) .. "ms path=/a/b/" .. i
    local u, t = line:match("user=(u[0-9]+) took=([0-9]+)ms")
    if u then hits = hits + 1 total = total + math.tointeger(tonumber(t)) end
  end
  return hits .. " " .. total
end
print(run(tonumber(arg[1])))
