import sys
def run(n):
    recs = []; x = 12345
    for i in range(n):
        x = (x * 1103515245 + 12345) % 2147483648
        recs.append({"id": i, "key": x, "name": f"n{x % 1000}"})
    s = sorted(recs, key=lambda r: r["key"])
    return f"{s[0]['key']} {s[n // 2]['key']} {s[-1]['key']}"
print(run(int(sys.argv[1])))
