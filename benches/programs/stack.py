import sys
def run(n):
    q = []
    for i in range(n): q.append(i)
    s = 0
    while q: s += q[-1]; q.pop()
    return s
print(run(int(sys.argv[1])))
