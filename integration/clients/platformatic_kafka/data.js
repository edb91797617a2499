import { randomUUID } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { defaultPartitioner, ListOffsetTimestamps } from '@platformatic/kafka'
import { bytes, isolation, text } from './settings.js'

export function dataCommands (settings) {
  const loads = new Map()
  return {
    produce: fields => produce(settings, fields),
    read: fields => read(settings, fields),
    offsets: fields => offsets(settings, fields),
    load_start ({ load, topic, rate, idempotent }) {
      loads.set(load, new Load(settings.producer(idempotence(idempotent)), topic, rate))
    },
    load_stop: ({ load }) => loads.get(load).end()
  }
}

/** acks=all is not the client's default unless idempotent. */
function idempotence (wanted) {
  return { acks: -1, ...(wanted !== undefined && { idempotent: wanted }) }
}

async function produce (settings, { topic, records, compression, idempotent }) {
  const producer = settings.producer({ ...idempotence(idempotent), ...(compression && { compression }) })
  try {
    return await send(producer, options => producer.send(options), topic, records)
  } finally {
    await producer.close()
  }
}

/**
 * Send records in one call and tell where each was placed, in their order. The client tells the first offset of each
 * partition, not where it put a record: so its own choice (hash of the key, or in turn) is made here.
 */
export async function send (producer, call, topic, records) {
  const count = (await producer.metadata({ topics: [topic] })).topics.get(topic).partitionsCount
  let turn = 0
  const messages = records.map(record => {
    const key = bytes(record.key)
    const partition = (record.partition ?? (key === undefined ? turn++ : defaultPartitioner(undefined, key))) % count
    return {
      topic,
      partition,
      key,
      value: bytes(record.value),
      ...(record.headers && { headers: new Map(record.headers.map(([key, value]) => [Buffer.from(key), bytes(value)])) }),
      ...(record.timestamp !== undefined && { timestamp: BigInt(record.timestamp) })
    }
  })
  const { offsets } = await call({ messages })
  const next = new Map(offsets.map(({ partition, offset }) => [partition, Number(offset)]))
  return {
    placed: messages.map(({ partition }) => {
      const offset = next.get(partition)
      next.set(partition, offset + 1)
      return [partition, offset]
    })
  }
}

/** A consumer reads in a group; to read without one, each partition is a stream at its offset in a group of its own. */
async function read (settings, { topic, starts, count, timeout_ms: timeoutMs, isolation: level }) {
  const until = Date.now() + timeoutMs
  const consumer = settings.consumer({ groupId: `reader-${randomUUID()}`, maxWaitTime: 500, ...isolation(level) })
  const records = []
  try {
    const wanted = new Set(Object.keys(starts).map(Number))
    const positions = []
    for (const [partition, start] of Object.entries(starts)) {
      const offset = typeof start === 'number' ? BigInt(start) : (await listed(consumer, topic, [Number(partition)], start))[partition]
      positions.push({ topic, partition: Number(partition), offset: BigInt(offset) })
    }
    const stream = await consumer.consume({ topics: [topic], mode: 'manual', fallbackMode: 'earliest', offsets: positions })
    let failure
    stream.on('error', error => { failure = error })
    stream.on('data', message => {
      if (wanted.has(message.partition)) {
        records.push(readAnswer(message))
      }
    })
    while (records.length < count && Date.now() < until && failure === undefined) {
      await sleep(10)
    }
    if (failure !== undefined) {
      throw failure
    }
  } finally {
    await consumer.close(true)
  }
  return { records }
}

function readAnswer ({ partition, offset, timestamp, key, value, headerEntries }) {
  const headers = headerEntries.map(([key, value]) => [text(key), text(value)])
  return { partition, offset, timestamp, key: text(key), value: text(value), headers }
}

/** Offsets by partition at 'beginning', 'end' or a time; null where there is none so late. */
async function listed (consumer, topic, partitions, at, level) {
  const timestamp = { beginning: ListOffsetTimestamps.EARLIEST, end: ListOffsetTimestamps.LATEST }[at] ?? BigInt(at)
  const found = await consumer.listOffsets({ topics: [topic], partitions: { [topic]: partitions }, timestamp, ...isolation(level) })
  const offsets = found.get(topic)
  return Object.fromEntries(partitions.map(each => [each, offsets[each] < 0n ? null : offsets[each]]))
}

async function offsets (settings, { topic, partitions, at, isolation: level }) {
  const consumer = settings.consumer({ groupId: 'never-joined' })
  try {
    return { offsets: await listed(consumer, topic, partitions, at, level) }
  } finally {
    await consumer.close()
  }
}

/** Produces numbers until it is ended, each with a send of its own. */
class Load {
  #acknowledged = []
  #failed = []
  #underWay = new Set()
  #stopped = false
  #running

  constructor (producer, topic, rate) {
    this.producer = producer
    this.#running = this.#run(topic, 1000 / rate)
  }

  async #run (topic, everyMs) {
    const began = performance.now()
    for (let number = 0; !this.#stopped; number++) {
      await sleep(Math.max(0, began + number * everyMs - performance.now()))
      const value = Buffer.from(String(number))
      const sending = this.producer.send({ messages: [{ topic, key: value, value }] })
        .then(() => this.#acknowledged.push(number), error => {
          console.error('load', number, error)
          this.#failed.push(number)
        })
        .finally(() => this.#underWay.delete(sending))
      this.#underWay.add(sending)
    }
  }

  async end () {
    this.#stopped = true
    await this.#running
    await Promise.all(this.#underWay)
    await this.producer.close()
    return { acknowledged: this.#acknowledged, failed: this.#failed }
  }
}
