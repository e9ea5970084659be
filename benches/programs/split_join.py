import sys
def run(n):
    text = "lorem ipsum dolor sit amet consectetur " * n
    words = text.split(" ")
    out = ",".join(words)
    return f"{len(words)} {len(out)}"
print(run(int(sys.argv[1])))
