import sys
def run(n):
    s = "é" + "abcdefghij" * (n // 10)
    c = 0; i = 0
    while i < len(s):
        if s[i] == "a": c += 1
        i += 1
    return c
print(run(int(sys.argv[1])))
