import sys
from collections import deque
def run(n):
    q = deque([1]); seen = {}; count = 0
    while q:
        x = q.popleft()
        k = f"{x}"
        if k in seen: continue
        seen[k] = True; count += 1
        if x * 2 <= n: q.append(x * 2)
        if x * 2 + 1 <= n: q.append(x * 2 + 1)
    return count
print(run(int(sys.argv[1])))
