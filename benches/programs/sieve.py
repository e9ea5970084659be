import sys


def run(n):
    prime = []
    for i in range(n + 1):
        prime.append(True)
    count = 0
    for i in range(2, n + 1):
        if prime[i]:
            count += 1
            j = i * i
            while j <= n:
                prime[j] = False
                j += i
    return count


print(run(int(sys.argv[1])))
