local function fib(n)
  if n < 2 then return n end
  return fib(n - 1) + fib(n - 2)
end

local function run(n)
  local sum = 0
  for i = 1, n do sum = sum + fib(24) + i end
  return sum
end

print(run(tonumber(arg[1])))
