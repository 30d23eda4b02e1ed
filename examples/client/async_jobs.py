"""Submits jobs from asyncio and follows them at the same time.

    python3 async_jobs.py WORD...
"""
import asyncio
import sys

from muster.client import AsyncClient


async def run(client, word):
    job = await client.submit(["echo", word], environment={"PATH": "/usr/bin:/bin"})
    output = b"".join([chunk.data async for chunk in client.logs(job, follow=True)])
    return f"{output.decode().strip()}: exit code {(await client.wait(job)).exit_code}"


async def main():
    async with AsyncClient() as client:
        for line in await asyncio.gather(*(run(client, word) for word in sys.argv[1:])):
            print(line)


asyncio.run(main())
