local function run(n)
  local xs, x = {}, 12345
  for i = 0, n-1 do
    x = (x * 1103515245 + 12345) % 2147483648
    xs[#xs+1] = "name" .. x
  end
  table.sort(xs)
  return xs[1] .. " " .. xs[n // 2 + 1] .. " " .. xs[n]
end
print(run(tonumber(arg[1])))
