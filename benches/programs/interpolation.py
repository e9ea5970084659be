import sys
def run(n):
    total = 0
    for i in range(n):
        s = f"id={i} x={i * 0.5} name={'abc'} ok={'true' if i % 2 == 0 else 'false'}"
        total += len(s)
    return total
print(run(int(sys.argv[1])))
