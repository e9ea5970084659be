import sys
import asyncio
async def run(n):
    a = asyncio.Queue(256)
    async def prod():
        for i in range(n): await a.put(i)
        await a.put(None)
    t = asyncio.create_task(prod()); s = 0
    while True:
        v = await a.get()
        if v is None: break
        s += v
    await t
    return s
print(asyncio.run(run(int(sys.argv[1]))))
