import sys

DOT = ("dot",)


def make(i):
    kind = i % 4
    if kind == 0:
        return DOT
    if kind == 1:
        return ("square", i % 10)
    if kind == 2:
        return ("rect", i % 10, i % 7)
    return ("triangle", i % 10, 4)


def area(shape):
    tag = shape[0]
    if tag == "dot":
        return 0
    if tag == "square":
        return shape[1] * shape[1]
    if tag == "rect":
        return shape[1] * shape[2]
    return shape[1] * shape[2] // 2


def run(n):
    total = 0
    for i in range(1, n + 1):
        total += area(make(i))
    return total


print(run(int(sys.argv[1])))
