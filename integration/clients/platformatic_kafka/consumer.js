// A consumer as applications have it, for `kshim conform-client`: automatic commits, what the stream throws ends it.
import { Consumer } from '@platformatic/kafka'

const consumer = new Consumer({
  clientId: 'consumer',
  bootstrapBrokers: process.env.KSHIM_BOOTSTRAP_SERVERS.split(','),
  groupId: process.env.KSHIM_GROUP,
  ...(process.env.KSHIM_INSTANCE && { groupInstanceId: process.env.KSHIM_INSTANCE })
})
const stream = await consumer.consume({
  topics: [process.env.KSHIM_TOPIC],
  autocommit: 500,
  mode: 'committed',
  fallbackMode: 'earliest'
})
for await (const _ of stream) {
  // Reading it is enough.
}
