local function split_count(text, sep)
  local pieces, from = {}, 1
  while true do
    local at = string.find(text, sep, from, true)
    if not at then break end
    pieces[#pieces + 1] = string.sub(text, from, at - 1)
    from = at + #sep
  end
  pieces[#pieces + 1] = string.sub(text, from)
  return #pieces
end

local function run(n)
  local lines = {}
  local line = ""
  for i = 1, n do
    line = line .. tostring(i) .. ","
    if i % 40 == 0 then
      lines[#lines + 1] = line
      line = ""
    end
  end
  lines[#lines + 1] = line
  local text = table.concat(lines, "\n")
  return #text + split_count(text, "7")
end

print(run(tonumber(arg[1])))
