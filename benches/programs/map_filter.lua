local function map(xs, f)
  local out = {}
  for i = 1, #xs do out[i] = f(xs[i]) end
  return out
end

local function filter(xs, f)
  local out = {}
  for i = 1, #xs do
    local x = xs[i]
    if f(x) then out[#out + 1] = x end
  end
  return out
end

local function reduce(xs, acc, f)
  for i = 1, #xs do acc = f(acc, xs[i]) end
  return acc
end

local function run(n)
  local xs = {}
  for i = 1, n do xs[i] = i end
  local check = 0
  for round = 1, 5 do
    local ys = map(xs, function(x) return x * 3 + round end)
    local zs = filter(ys, function(x) return x % 2 == 0 end)
    check = check + reduce(zs, 0, function(acc, x) return acc + x % 7 end)
  end
  return check
end

print(run(tonumber(arg[1])))
