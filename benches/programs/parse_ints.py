import sys
def run(n):
    text = ",".join([f"{i * 7 % 1000}" for i in range(n)])
    return sum(map(int, text.split(",")))
print(run(int(sys.argv[1])))
