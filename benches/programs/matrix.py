import sys
def run(n):
    a = [[(i * j) % 7 + 0.5 for j in range(n)] for i in range(n)]
    b = [[(i + j) % 5 + 0.25 for j in range(n)] for i in range(n)]
    c = []
    for i in range(n):
        ai = a[i]; row = []
        for j in range(n):
            s = 0.0
            for k in range(n): s = s + ai[k] * b[k][j]
            row.append(s)
        c.append(row)
    t = 0.0
    for r in c:
        for v in r: t = t + v
    return t
print(run(int(sys.argv[1])))
