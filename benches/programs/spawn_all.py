import sys
import asyncio
async def work(i): return i * 2
async def run(n):
    hs = [asyncio.create_task(work(i)) for i in range(n)]
    s = 0
    for h in hs: s += await h
    return s
print(asyncio.run(run(int(sys.argv[1]))))
