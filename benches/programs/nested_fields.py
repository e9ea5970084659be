import sys
def run(n):
    o = {"a": 1, "b": {"c": 2, "l": [1, 2, 3]}}
    for i in range(n):
        o["a"] = o["a"] + 1
        o["b"]["c"] += o["a"]
        o["b"]["l"][i % 3] = i
    return f"{{a: {o['a']}, b: {{c: {o['b']['c']}, l: {o['b']['l']}}}}}"
print(run(int(sys.argv[1])))
