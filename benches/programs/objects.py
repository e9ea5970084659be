import sys
class V:
    __slots__ = ("x", "y")
    def __init__(self, x, y): self.x = x; self.y = y
    def add(self, o): return V(self.x + o.x, self.y + o.y)
    def scale(self, k): return V(self.x * k, self.y * k)
def run(n):
    p = V(0.0, 0.0); v = V(1.0, 0.5)
    for i in range(n): p = p.add(v.scale(0.5))
    return f"{p.x} {p.y}"
print(run(int(sys.argv[1])))
