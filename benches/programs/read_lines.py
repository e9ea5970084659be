import sys
def run():
    n = 0; b = 0
    with open(sys.argv[2]) as f:
        for line in f:
            n += 1; b += len(line.rstrip("\n"))
    return f"{n} {b}"
print(run())
