import sys
import asyncio
async def work(i): return i * 2
async def run(n):
    return sum(await asyncio.gather(*[work(i) for i in range(n)]))
print(asyncio.run(run(int(sys.argv[1]))))
