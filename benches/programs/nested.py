import sys
def run(n):
    root = {}
    for i in range(n):
        a = f"a{i % 100}"; b = f"b{i % 1000}"
        if root.get(a) is None: root[a] = {}
        if root[a].get(b) is None: root[a][b] = {"count": 0, "items": []}
        root[a][b]["count"] += 1
        root[a][b]["items"].append(i)
    s = 0
    for k in root:
        for k2 in root[k]:
            v2 = root[k][k2]; s += v2["count"] * len(v2["items"])
    return s
print(run(int(sys.argv[1])))
