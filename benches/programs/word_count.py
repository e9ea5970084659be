import sys
def run():
    counts = {}
    with open(sys.argv[2]) as f:
        for line in f:
            for w in line.rstrip("\n").split(" "):
                counts[w] = counts.get(w, 0) + 1
    best = ""; most = 0
    for k in sorted(counts):
        v = counts[k]
        if v > most: most = v; best = k
    return f"{len(counts)} {best} {most}"
print(run())
