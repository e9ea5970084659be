local function run(n)
  local q, first, last = { 1 }, 1, 1
  local seen, count = {}, 0
  while first <= last do
    local x = q[first]
    q[first] = nil
    first = first + 1
    local key = tostring(x)
    if not seen[key] then
      seen[key] = true
      count = count + 1
      if x * 2 <= n then last = last + 1 q[last] = x * 2 end
      if x * 2 + 1 <= n then last = last + 1 q[last] = x * 2 + 1 end
    end
  end
  return count
end

print(run(tonumber(arg[1])))
