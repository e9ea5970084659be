import sys
import asyncio
async def work(i): return i * 2
async def run(n):
    s = 0
    for i in range(n):
        h = asyncio.create_task(work(i))
        s += await h
    return s
print(asyncio.run(run(int(sys.argv[1]))))
