return { redis.call('GET', 'node:keys:version') or '0', redis.call('HVALS', 'node:keys') }
