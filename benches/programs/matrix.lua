local function run(n)
  local a, b, c = {}, {}, {}
  for i = 0, n-1 do local ra, rb = {}, {}
    for j = 0, n-1 do ra[j+1] = (i * j) % 7 + 0.5 rb[j+1] = (i + j) % 5 + 0.25 end
    a[i+1] = ra b[i+1] = rb end
  for i = 1, n do local ai, row = a[i], {}
    for j = 1, n do local s = 0.0
      for k = 1, n do s = s + ai[k] * b[k][j] end
      row[#row+1] = s end
    c[#c+1] = row end
  local t = 0.0
  for i = 1, n do for j = 1, n do t = t + c[i][j] end end
  return t
end
print(run(tonumber(arg[1])))
