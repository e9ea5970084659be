import sys
import sys
sys.setrecursionlimit(1000000)
import threading
threading.stack_size(512*1024*1024)
memo = {}
def f(n):
    if n < 2: return n
    k = f"{n}"
    m = memo.get(k)
    if m is not None: return m
    r = (f(n - 1) + f(n - 2)) % 1000007
    memo[k] = r
    return r
t = threading.Thread(target=lambda: print(f(int(sys.argv[1])))); t.start(); t.join()
