import sys
def run(n):
    d = {}
    for i in range(n): d[(i * 31) % 5003] = i
    s = 0
    for i in range(n): s += d.get(i % 5003) or 0
    return s
print(run(int(sys.argv[1])))
