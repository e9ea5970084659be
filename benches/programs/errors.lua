local function check(i)
  if i % 4 == 0 then error(i, 0) end
  return i
end

local function work(i)
  return check(i) + 1
end

local function run(n)
  local good = 0
  local bad = 0
  for i = 1, n do
    local ok, v = pcall(work, i)
    if ok then
      good = good + v
    else
      bad = bad + v
    end
  end
  return good * 3 - bad
end

print(run(tonumber(arg[1])))
