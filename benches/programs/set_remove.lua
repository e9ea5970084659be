local function run(n)
  local s, size = {}, 0
  for i = 0, n - 1 do if not s[i] then s[i] = true size = size + 1 end end
  for i = 0, n - 1 do if s[i] then s[i] = nil size = size - 1 end end
  return size
end

print(run(tonumber(arg[1])))
