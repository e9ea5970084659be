import sys
def nums(n):
    for i in range(n): yield i
def sq(src):
    for x in src: yield x * x
def odd(src):
    for x in src:
        if x % 2 == 1: yield x
def run(n):
    s = 0
    for x in odd(sq(nums(n))): s += x
    return s
print(run(int(sys.argv[1])))
