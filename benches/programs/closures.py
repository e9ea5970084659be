import sys


def counter(step):
    count = 0

    def next_count():
        nonlocal count
        count = count + step
        return count

    return next_count


def run(n):
    check = 0
    next_count = counter(1)
    for i in range(1, n + 1):
        if i % 100 == 0:
            next_count = counter(i % 7)
        check += next_count()
    return check


print(run(int(sys.argv[1])))
