import { errorName, Unsupported } from './errors.js'
import { isolation, text } from './settings.js'

const ASSIGNORS = { roundrobin: 'roundrobin', 'cooperative-sticky': 'cooperative-sticky' }

export function memberCommands (settings) {
  const members = new Map()
  return {
    async member_start (fields) {
      members.set(fields.member, new Member(settings, fields))
    },
    member_log: ({ members: names }) => ({ members: Object.fromEntries(names.map(name => [name, members.get(name).log()])) }),
    member_commit: ({ member }) => members.get(member).commit(),
    member_seek: ({ member, topic, partition, offset }) => members.get(member).seek(topic, partition, offset),
    member_stop: ({ member, commit }) => members.get(member).end(commit === true)
  }
}

/** The options of a consumer that a command's fields ask for. */
function options (fields, hasConsumerProtocol) {
  if (fields.pattern !== undefined) {
    throw new Unsupported('@platformatic/kafka subscribes to topics by name, not to patterns')
  }
  if (fields.commit_on_revoke) {
    throw new Unsupported('@platformatic/kafka has no callback before partitions are given up')
  }
  if (hasConsumerProtocol) {
    return {
      groupId: fields.group,
      ...(fields.assignors && { groupRemoteAssignor: fields.assignors[0] }),
      ...(fields.instance_id && { groupInstanceId: fields.instance_id }),
      ...(fields.metadata_max_age_ms && { metadataMaxAge: fields.metadata_max_age_ms }),
      ...isolation(fields.isolation)
    }
  }
  const unknown = (fields.assignors ?? []).filter(name => !(name in ASSIGNORS))
  if (unknown.length > 0) {
    throw new Unsupported(`@platformatic/kafka has no ${unknown[0]} assignor`)
  }
  return {
    groupId: fields.group,
    ...(fields.assignors && { protocols: fields.assignors.map(name => ({ name: ASSIGNORS[name], version: 1 })) }),
    ...(fields.instance_id && { groupInstanceId: fields.instance_id }),
    ...(fields.session_timeout_ms && { sessionTimeout: fields.session_timeout_ms }),
    ...(fields.heartbeat_interval_ms && { heartbeatInterval: fields.heartbeat_interval_ms }),
    ...(fields.metadata_max_age_ms && { metadataMaxAge: fields.metadata_max_age_ms }),
    ...isolation(fields.isolation)
  }
}

/** A consumer whose stream is read from the start on. */
class Member {
  #consumer
  #topics
  #stream
  #records = []
  #events = []
  #errors = []
  #owned = []
  #positions = new Map()

  constructor (settings, fields) {
    this.#topics = fields.topics
    this.#consumer = settings.consumer(options(fields, settings.hasConsumerProtocol))
    this.#consumer.on('consumer:group:join', () => this.#note())
    this.#consumer.on('consumer:group:leave', () => this.#note())
    this.#consumer.on('consumer:group:rebalance', () => this.#note())
    this.#consumer.on('error', error => this.#fail(error))
    this.#read({ mode: 'committed' }).catch(error => this.#fail(error))
  }

  async #read (from) {
    const stream = await this.#consumer.consume({ topics: this.#topics, fallbackMode: 'earliest', ...from })
    this.#stream = stream
    stream.on('error', error => this.#fail(error))
    stream.on('data', ({ topic, partition, offset, leaderEpoch, value }) => {
      this.#positions.set(`${topic} ${partition}`, { topic, partition, offset: offset + 1n, leaderEpoch })
      this.#records.push([topic, partition, offset, text(value)])
    })
  }

  #fail (error) {
    console.error('member', error)
    this.#errors.push(errorName(error))
  }

  /** The client has no callbacks with partitions: what changed is reported as revoked and assigned. */
  #note () {
    const owned = (this.#consumer.assignments ?? []).flatMap(({ topic, partitions }) => partitions.map(each => [topic, each]))
    const missing = (all, some) => all.filter(([topic, partition]) => !some.some(each => each[0] === topic && each[1] === partition))
    const revoked = missing(this.#owned, owned)
    const assigned = missing(owned, this.#owned)
    if (revoked.length > 0) {
      this.#events.push(['revoked', revoked])
    }
    if (assigned.length > 0) {
      this.#events.push(['assigned', assigned])
    }
    for (const [topic, partition] of revoked) {
      this.#positions.delete(`${topic} ${partition}`)
    }
    this.#owned = owned
  }

  log () {
    this.#note()
    const told = { records: this.#records, assignment: this.#owned, events: this.#events, errors: this.#errors }
    this.#records = []
    this.#events = []
    this.#errors = []
    return told
  }

  async commit () {
    const offsets = Array.from(this.#positions.values())
    if (offsets.length > 0) {
      await this.#consumer.commit({ offsets })
    }
  }

  /** A stream has no seek: it is closed, and another one begins at these offsets. */
  async seek (topic, partition, offset) {
    await this.#stream.close()
    const offsets = Array.from(this.#positions.values(), each => ({ topic: each.topic, partition: each.partition, offset: each.offset }))
      .filter(each => each.topic !== topic || each.partition !== partition)
    await this.#read({ mode: 'manual', offsets: [...offsets, { topic, partition, offset: BigInt(offset) }] })
  }

  async end (commit) {
    if (commit) {
      await this.commit()
    }
    await this.#consumer.close(true)
    return { records: this.#records }
  }
}
