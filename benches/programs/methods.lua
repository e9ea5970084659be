local Vec = {}
Vec.__index = Vec

local function vec(x, y) return setmetatable({ x = x, y = y }, Vec) end

function Vec:add(other) return vec(self.x + other.x, self.y + other.y) end

function Vec:dot(other) return self.x * other.x + self.y * other.y end

function Vec:turned() return vec(-self.y, self.x) end

local function run(n)
  local at = vec(0, 0)
  local step = vec(1, 2)
  local check = 0
  for i = 1, n do
    at = at:add(step)
    if i % 3 == 0 then step = step:turned() end
    check = check + at:dot(step)
  end
  return check
end

print(run(tonumber(arg[1])))
