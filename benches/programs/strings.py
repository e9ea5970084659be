import sys


def run(n):
    lines = []
    line = ""
    for i in range(1, n + 1):
        line = line + str(i) + ","
        if i % 40 == 0:
            lines.append(line)
            line = ""
    lines.append(line)
    text = "\n".join(lines)
    return len(text) + len(text.split("7"))


print(run(int(sys.argv[1])))
