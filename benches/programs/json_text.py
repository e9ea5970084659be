import json
import sys


def document(seed):
    records = []
    for i in range(1, 21):
        records.append({
            "id": seed * 20 + i,
            "name": f'record "{i}"\tof {seed}',
            "ratio": 0.5,
            "tags": ["alpha", "beta", "gamma"],
            "done": i % 2 == 0,
            "note": None,
        })
    return {"seed": seed, "records": records}


def run(n):
    check = 0
    for i in range(1, n + 1):
        back = json.loads(json.dumps(document(i)))
        for r in back["records"]:
            check += r["id"] + len(r["name"]) + len(r["tags"])
    return check


print(run(int(sys.argv[1])))
