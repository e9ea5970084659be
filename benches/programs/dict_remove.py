import sys
def run(n):
    d = {}
    for i in range(n): d[f"k{i}"] = i
    for i in range(n): del d[f"k{i}"]
    return len(d)
print(run(int(sys.argv[1])))
