import functools
import sys


def run(n):
    squares = map(lambda x: x * x, range(n))
    some = filter(lambda x: x % 3 != 1, squares)
    return functools.reduce(lambda total, x: (total + x) % 1000003, some, 0)


print(run(int(sys.argv[1])))
