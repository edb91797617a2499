// Writes each line of its input to the topic `audit`, and says of each whether it is safe.
import { createInterface } from 'node:readline'
import { ProduceAcks, Producer, stringSerializers } from '@platformatic/kafka'

const producer = new Producer({
  clientId: 'audit',
  bootstrapBrokers: process.env.BOOTSTRAP_SERVERS.split(','),
  serializers: stringSerializers,
  retries: 5,
  retryDelay: 50
})

for await (const line of createInterface({ input: process.stdin })) {
  try {
    await producer.send({ acks: ProduceAcks.ALL, messages: [{ topic: 'audit', value: line }] })
    console.log(`safe: ${line}`)
  } catch (error) {
    console.log(`NOT SAFE: ${line}`)
    console.error(error)
    process.exitCode = 1
  }
}
await producer.close()
