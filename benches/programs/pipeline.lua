-- The way that Lua's own iterators compose: closures over closures.
local function range(n)
  local i = -1
  return function()
    i = i + 1
    if i < n then return i end
  end
end

local function map(items, f)
  return function()
    local x = items()
    if x ~= nil then return f(x) end
  end
end

local function filter(items, f)
  return function()
    while true do
      local x = items()
      if x == nil or f(x) then return x end
    end
  end
end

local function reduce(items, init, f)
  local acc = init
  for x in items do acc = f(acc, x) end
  return acc
end

local function run(n)
  local squares = map(range(n), function(x) return x * x end)
  local some = filter(squares, function(x) return x % 3 ~= 1 end)
  return reduce(some, 0, function(sum, x) return (sum + x) % 1000003 end)
end

print(run(tonumber(arg[1])))
