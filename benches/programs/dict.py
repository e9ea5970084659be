import sys


def run(n):
    words = [f"word{i}" for i in range(1000)]
    counts = {}
    for i in range(1, n + 1):
        word = words[i * 7919 % 1000]
        counts[word] = counts.get(word, 0) + 1
    check = 0
    for i in range(1000):
        check += counts[f"word{i}"] * (i + 1)
    return check


print(run(int(sys.argv[1])))
