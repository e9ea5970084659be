import sys
from functools import reduce


def run(n):
    xs = list(range(1, n + 1))
    check = 0
    for round in range(1, 6):
        ys = list(map(lambda x: x * 3 + round, xs))
        zs = list(filter(lambda x: x % 2 == 0, ys))
        check += reduce(lambda acc, x: acc + x % 7, zs, 0)
    return check


print(run(int(sys.argv[1])))
