import sys
import re
def run(n):
    hits = 0; total = 0
    for i in range(n):
        line = f"2024-01-{i % 28 + 1} level=INFO user=u{i} took={i % 977}ms path=/a/b/{i}"
        m = re.search("user=(u[0-9]+) took=([0-9]+)ms", line)
        if m: hits += 1; total += int(m.group(2))
    return f"{hits} {total}"
print(run(int(sys.argv[1])))
