import sys


class Bad(Exception):
    pass


def check(i):
    if i % 4 == 0:
        raise Bad(i)
    return i


def work(i):
    return check(i) + 1


def run(n):
    good = 0
    bad = 0
    for i in range(1, n + 1):
        try:
            good += work(i)
        except Bad as e:
            bad += e.args[0]
    return good * 3 - bad


print(run(int(sys.argv[1])))
