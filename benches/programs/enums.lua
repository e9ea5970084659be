local DOT = { tag = "dot" }

local function make(i)
  local kind = i % 4
  if kind == 0 then return DOT end
  if kind == 1 then return { tag = "square", i % 10 } end
  if kind == 2 then return { tag = "rect", i % 10, i % 7 } end
  return { tag = "triangle", i % 10, 4 }
end

local function area(shape)
  local tag = shape.tag
  if tag == "dot" then return 0 end
  if tag == "square" then return shape[1] * shape[1] end
  if tag == "rect" then return shape[1] * shape[2] end
  return shape[1] * shape[2] // 2
end

local function run(n)
  local total = 0
  for i = 1, n do total = total + area(make(i)) end
  return total
end

print(run(tonumber(arg[1])))
