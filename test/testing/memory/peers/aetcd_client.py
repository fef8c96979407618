# Uses the client of the PyPI package aetcd, which calls gRPC with asyncio.
import asyncio
import sys

import aetcd


async def main():
    host, port = sys.argv[1].split(':')
    async with aetcd.Client(host=host, port=int(port), timeout=10) as client:
        await client.put(b'py/a', b'one')
        await client.put(b'py/b', b'two')
        print('range', [(kv.key, kv.value, kv.version) for kv in await client.get_prefix(b'py/')])
        print('previous', (await client.put(b'py/a', b'uno', prev_kv=True)).prev_kv.value, await client.get(b'py/none'))

        watch = await client.watch_prefix(b'py/w')
        await client.put(b'py/w', b'1')
        await client.delete(b'py/w')
        seen = []
        async for event in watch:
            seen.append((str(event.kind), event.kv.key, event.kv.value))
            if len(seen) == 2:
                break
        await watch.cancel()
        print('watch', seen)

        lease = await client.lease(30)
        await client.put(b'py/l', b'x', lease=lease)
        print('lease', (await lease.refresh()).TTL, (await client.get(b'py/l')).lease == lease.id)
        await lease.revoke()
        print('revoked', await client.get(b'py/l'))

        transactions = client.transactions
        succeeded, _ = await client.transaction(
            compare=[transactions.value(b'py/a') == b'uno'],
            success=[transactions.put(b'py/a', b'eins')],
            failure=[],
        )
        print('txn', succeeded, (await client.get(b'py/a')).value)
        async with client.lock(b'py/lock', ttl=20):
            print('locked')
        print('status', (await client.status()).version.split('.')[:2])
        print('deleted', (await client.delete_prefix(b'py/')).deleted)


asyncio.run(main())
