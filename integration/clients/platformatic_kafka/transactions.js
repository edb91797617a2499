import { once } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'
import { findErrorBy, FetchIsolationLevels } from '@platformatic/kafka'
import { send } from './data.js'
import { Unsupported } from './errors.js'

/**
 * Without this the client sends producer id 0 and epoch 0 where -1 is meant, and a second producer of the same
 * transactional id is refused as fenced. InitProducerId is sent when the first transaction begins.
 */
const ANEW = { producerId: -1n, producerEpoch: -1 }

/** The client has no timeout for transactions: it takes the one of every request, 5 s if not named. */
function transactional (transactionalId, timeoutMs) {
  return { transactionalId, idempotent: true, acks: -1, ...(timeoutMs !== undefined && { timeout: timeoutMs }) }
}

export function transactionCommands (settings) {
  const producers = new Map()
  return {
    async transactional_open ({ producer: name, transactional_id: transactionalId, timeout_ms: timeoutMs }) {
      const producer = settings.producer(transactional(transactionalId, timeoutMs))
      try {
        producers.set(name, { producer, transaction: await producer.beginTransaction(ANEW), isNew: true })
      } catch (error) {
        await producer.close()
        throw error
      }
    },
    async transaction_begin ({ producer: name }) {
      const opened = producers.get(name)
      if (!opened.isNew) {
        opened.transaction = await opened.producer.beginTransaction()
      }
      opened.isNew = false
    },
    transaction_send ({ producer: name, topic, records }) {
      const { producer, transaction } = producers.get(name)
      return send(producer, options => transaction.send(options), topic, records)
    },
    transaction_offsets () {
      throw new Unsupported('@platformatic/kafka sends offsets only as those of consumed messages')
    },
    transaction_commit: ({ producer: name }) => producers.get(name).transaction.commit(),
    transaction_abort: ({ producer: name }) => producers.get(name).transaction.abort(),
    transactional_close: ({ producer: name }) => producers.get(name).producer.close(),
    copy: fields => new Copy(settings, fields).run()
  }
}

/** The exactly-once copy: what the stream brought so far, at most 100 messages, is one transaction. */
class Copy {
  #fields
  #consumer
  #producer
  #stream
  #waiting = []
  #failure
  #copied = 0
  #committed = 0
  #aborted = 0

  constructor (settings, fields) {
    this.#fields = fields
    this.#consumer = settings.consumer({ groupId: fields.group, isolationLevel: FetchIsolationLevels.READ_COMMITTED })
    this.#producer = settings.producer(transactional(fields.transactional_id))
  }

  async run () {
    const until = Date.now() + this.#fields.timeout_ms
    try {
      await this.#read()
      while (this.#copied < this.#fields.count && Date.now() < until) {
        if (this.#failure !== undefined) {
          throw this.#failure
        }
        if (this.#waiting.length === 0) {
          await sleep(10)
        } else {
          await this.#transact(this.#waiting.splice(0, 100))
        }
      }
    } finally {
      await this.#consumer.close(true)
      await this.#producer.close()
    }
    return { copied: this.#copied, committed: this.#committed, aborted: this.#aborted }
  }

  /** From the committed offsets on. */
  async #read () {
    this.#waiting = []
    this.#stream = await this.#consumer.consume({ topics: [this.#fields.source], mode: 'committed', fallbackMode: 'earliest' })
    this.#stream.on('data', message => this.#waiting.push(message))
    this.#stream.on('error', error => { this.#failure = error })
  }

  async #transact (messages) {
    const transaction = await this.#producer.beginTransaction(ANEW)
    try {
      await transaction.send({
        messages: messages.map(({ key, value }) => ({ topic: this.#fields.target, key, value: Buffer.from(`${value}!`) }))
      })
      if (this.#fields.abort_every && (this.#committed + this.#aborted + 1) % this.#fields.abort_every === 0) {
        await this.#abort(transaction)
        return
      }
      await transaction.addConsumer(this.#consumer)
      const last = new Map(messages.map(message => [message.partition, message]))
      for (const message of last.values()) {
        await transaction.addOffset(message)
      }
      await transaction.commit()
      this.#copied += messages.length
      this.#committed++
    } catch (error) {
      if (findErrorBy(error, 'producerFenced', true)) {
        throw error
      }
      console.error('copy', error)
      await this.#abort(transaction)
    }
  }

  async #abort (transaction) {
    await transaction.abort()
    this.#aborted++
    const closed = once(this.#stream, 'close')
    this.#stream.destroy()
    await closed
    await this.#read()
  }
}
