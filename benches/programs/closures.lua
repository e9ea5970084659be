local function counter(step)
  local count = 0
  return function()
    count = count + step
    return count
  end
end

local function run(n)
  local check = 0
  local next = counter(1)
  for i = 1, n do
    if i % 100 == 0 then next = counter(i % 7) end
    check = check + next()
  end
  return check
end

print(run(tonumber(arg[1])))
