import sys
for i in range(int(sys.argv[1])): print(f"line {i}")
