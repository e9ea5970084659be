local n, b = 0, 0
for line in io.lines(arg[2]) do n = n + 1 b = b + #line end
print(n .. " " .. b)
