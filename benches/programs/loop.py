import sys


def run(n):
    total = 0
    for i in range(1, n + 1):
        if i % 3 == 0:
            total += i * 2
        else:
            total -= i
    return total


print(run(int(sys.argv[1])))
