import sys
def run(n):
    s = set()
    for i in range(n): s.add(i)
    for i in range(n): s.discard(i)
    return len(s)
print(run(int(sys.argv[1])))
