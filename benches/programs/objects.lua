local V = {} V.__index = V
local function new(x, y) return setmetatable({x = x, y = y}, V) end
function V:add(o) return new(self.x + o.x, self.y + o.y) end
function V:scale(k) return new(self.x * k, self.y * k) end
local function run(n) local p, v = new(0.0, 0.0), new(1.0, 0.5) for i = 0, n-1 do p = p:add(v:scale(0.5)) end return p.x .. " " .. p.y end
print(run(tonumber(arg[1])))
