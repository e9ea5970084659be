local function run(n)
  local text = ("lorem ipsum dolor sit amet consectetur "):rep(n)
  local words = {}
  local pos = 1
  while true do local a = text:find(" ", pos, true)
    if not a then words[#words+1] = text:sub(pos) break end
    words[#words+1] = text:sub(pos, a-1) pos = a + 1 end
  local out = table.concat(words, ",")
  return #words .. " " .. #out
end
print(run(tonumber(arg[1])))
