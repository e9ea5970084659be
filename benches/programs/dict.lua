local function run(n)
  local words = {}
  for i = 0, 999 do words[i + 1] = "word" .. i end
  local counts = {}
  for i = 1, n do
    local word = words[i * 7919 % 1000 + 1]
    counts[word] = (counts[word] or 0) + 1
  end
  local check = 0
  for i = 0, 999 do check = check + counts["word" .. i] * (i + 1) end
  return check
end

print(run(tonumber(arg[1])))
