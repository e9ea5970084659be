import sys


def run(n):
    records = []
    for i in range(1, n + 1):
        records.append({"id": i, "score": i * 7368787 % 15485863})
    ordered = sorted(records, key=lambda r: r["score"])
    check = 0
    place = 0
    for r in ordered:
        place += 1
        check = (check * 31 + r["id"] * place) % 1000003
    return check


print(run(int(sys.argv[1])))
