import sys
def run(n):
    xs = []; x = 12345
    for i in range(n):
        x = (x * 1103515245 + 12345) % 2147483648
        xs.append(f"name{x}")
    s = sorted(xs)
    return f"{s[0]} {s[n // 2]} {s[-1]}"
print(run(int(sys.argv[1])))
