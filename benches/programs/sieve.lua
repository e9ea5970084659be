local function run(n)
  local prime = {}
  for i = 0, n do prime[#prime + 1] = true end
  local count = 0
  for i = 2, n do
    if prime[i + 1] then
      count = count + 1
      local j = i * i
      while j <= n do
        prime[j + 1] = false
        j = j + i
      end
    end
  end
  return count
end

print(run(tonumber(arg[1])))
