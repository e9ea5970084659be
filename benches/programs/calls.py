import sys


def fib(n):
    if n < 2:
        return n
    return fib(n - 1) + fib(n - 2)


def run(n):
    total = 0
    for i in range(1, n + 1):
        total += fib(24) + i
    return total


print(run(int(sys.argv[1])))
