import sys
def run(n):
    s = "hello wörld " * n
    v = 0
    for c in s:
        if c == "o" or c == "ö": v += 1
    return v
print(run(int(sys.argv[1])))
