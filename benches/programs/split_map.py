import sys
def run(n):
    text = "lorem ipsum dolor sit amet consectetur " * n
    return len("-".join([w for w in [w.upper() for w in text.split(" ")] if len(w) > 3]))
print(run(int(sys.argv[1])))
