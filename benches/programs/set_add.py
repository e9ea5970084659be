import sys
def run(n):
    s = set()
    for i in range(n): s.add((i * 7919) % 100003)
    hits = 0
    for i in range(n):
        if i in s: hits += 1
    return f"{len(s)} {hits}"
print(run(int(sys.argv[1])))
