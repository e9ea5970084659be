import sys
def run(n):
    d = {}
    for i in range(n): d = {**d, f"k{i}": i}
    return len(d)
print(run(int(sys.argv[1])))
