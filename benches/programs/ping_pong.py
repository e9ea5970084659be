import sys
import asyncio
async def run(n):
    a = asyncio.Queue(1); b = asyncio.Queue(1)
    async def echo():
        while True:
            v = await a.get()
            if v is None: return
            await b.put(v + 1)
    t = asyncio.create_task(echo())
    s = 0
    for i in range(n):
        await a.put(i); s += await b.get()
    await a.put(None); await t
    return s
print(asyncio.run(run(int(sys.argv[1]))))
