import sys


class Vec:
    __slots__ = ("x", "y")

    def __init__(self, x, y):
        self.x = x
        self.y = y

    def add(self, other):
        return Vec(self.x + other.x, self.y + other.y)

    def dot(self, other):
        return self.x * other.x + self.y * other.y

    def turned(self):
        return Vec(-self.y, self.x)


def run(n):
    at = Vec(0, 0)
    step = Vec(1, 2)
    check = 0
    for i in range(1, n + 1):
        at = at.add(step)
        if i % 3 == 0:
            step = step.turned()
        check += at.dot(step)
    return check


print(run(int(sys.argv[1])))
