local sqrt = math.sqrt

local function trunc(v)
  if v < 0 then return math.ceil(v) end
  return math.floor(v)
end

local function run(n)
  local m = { 39.478, 0.0377, 0.0113, 0.0017, 0.0020 }
  local x = { 0.0, 4.84, 8.34, 12.89, 15.38 }
  local y = { 0.0, -1.16, 4.12, -15.11, -25.92 }
  local z = { 0.0, -0.10, -0.40, -0.22, 0.18 }
  local vx = { 0.0, 0.606, -1.011, 1.083, 0.979 }
  local vy = { 0.0, 2.812, 1.826, 0.869, 0.594 }
  local vz = { 0.0, -0.025, 0.008, -0.011, -0.035 }
  for _ = 1, n do
    for i = 1, 5 do
      for j = i + 1, 5 do
        local dx = x[i] - x[j]
        local dy = y[i] - y[j]
        local dz = z[i] - z[j]
        local d2 = dx * dx + dy * dy + dz * dz
        local mag = 0.001 / (d2 * sqrt(d2))
        vx[i] = vx[i] - dx * m[j] * mag
        vy[i] = vy[i] - dy * m[j] * mag
        vz[i] = vz[i] - dz * m[j] * mag
        vx[j] = vx[j] + dx * m[i] * mag
        vy[j] = vy[j] + dy * m[i] * mag
        vz[j] = vz[j] + dz * m[i] * mag
      end
    end
    for i = 1, 5 do
      x[i] = x[i] + vx[i] * 0.001
      y[i] = y[i] + vy[i] * 0.001
      z[i] = z[i] + vz[i] * 0.001
    end
  end
  return trunc(x[2] * 1000000.0) + trunc(y[3] * 1000000.0) + trunc(vz[5] * 1000000.0)
end

print(run(tonumber(arg[1])))
