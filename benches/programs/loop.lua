local function run(n)
  local sum = 0
  for i = 1, n do
    if i % 3 == 0 then
      sum = sum + i * 2
    else
      sum = sum - i
    end
  end
  return sum
end

print(run(tonumber(arg[1])))
