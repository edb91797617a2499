// A kshim for tests in Node.js. Copy this file; it needs Node.js 20 or later and `kshim` with its extra `control` on the PATH.
//
//   const kshim = await Kshim.start({ topics: { orders: 3 } })
//   await kshim.group('billing').waitStable({ members: 1 })
//   await kshim.stop()
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'

export class Kshim {
  // Starts brokers on free ports; resolves once they accept connections.
  static async start ({ brokers = 1, topics = {}, config = {}, command = 'kshim' } = {}) {
    const args = ['serve', '--listen', '127.0.0.1:0', '--control', '127.0.0.1:0', '--log-format', 'json', '--brokers', `${brokers}`]
    for (const [name, partitions] of Object.entries(topics)) args.push('--topic', `${name}:${partitions}`)
    for (const [key, value] of Object.entries(config)) args.push('--config', `${key}=${value}`)
    const kshim = new Kshim(spawn(command, args, { stdio: ['ignore', 'pipe', 'pipe'] }))
    const ended = once(kshim.process, 'close').then(() => {
      throw new Error(`kshim has ended:\n${kshim.log.join('\n')}`)
    })
    ended.catch(() => {})
    await Promise.race([kshim.listening, ended])
    return kshim
  }

  constructor (process) {
    this.process = process
    this.log = []
    const url = new Promise(resolve => {
      createInterface({ input: process.stderr }).on('line', line => {
        this.log.push(line)
        if (line.includes('"control_listening"')) resolve(JSON.parse(line).url)
      })
    })
    const bootstrap = new Promise(resolve => createInterface({ input: process.stdout }).once('line', resolve))
    this.listening = Promise.all([url, bootstrap]).then(([url, bootstrap]) => {
      this.url = url
      this.bootstrapBrokers = bootstrap.split(',')
    })
  }

  async stop () {
    this.process.kill()
    if (this.process.exitCode === null && this.process.signalCode === null) await once(this.process, 'close')
  }

  // One request; the answer's document. What is refused is an Error with the sentence of kshim.
  async request (method, path, body) {
    const headers = body === undefined ? {} : { 'Content-Type': 'application/json' }
    const answer = await fetch(`${this.url}${path}`, { method, headers, body: body === undefined ? undefined : JSON.stringify(body) })
    const text = await answer.text()
    if (!answer.ok) throw new Error(JSON.parse(text).detail)
    return text === '' ? undefined : JSON.parse(text)
  }

  // Everything as at the start, at the same addresses.
  reset () { return this.request('POST', '/v1/reset') }

  createTopic (name, partitions = 1) { return this.request('POST', '/v1/topics', { name, partitions }) }

  produce (topic, ...records) { return this.request('POST', `/v1/topics/${topic}/records`, { records }) }

  async records (topic, partition = 0) { return (await this.request('GET', `/v1/topics/${topic}/records?partition=${partition}&limit=1000`)).records }

  group (id) { return new Group(this, `/v1/groups/${encodeURIComponent(id)}`) }

  // A rule such as { on: 'Heartbeat', match: { group: 'billing' }, do: { error: 'NOT_COORDINATOR' }, when: { times: 2 } }.
  fault (rule) { return this.request('POST', '/v1/faults', rule) }

  assertFaultsUsed () { return this.request('POST', '/v1/faults/assert-used') }

  // Moves the brokers' clock ahead by so many seconds; the timers that fired on the way.
  async advance (seconds) { return (await this.request('POST', '/v1/clock/advance', { seconds })).fired }

  node (id, verb) { return this.request('POST', `/v1/nodes/${id}/${verb}`) }
}

class Group {
  constructor (kshim, path) {
    this.kshim = kshim
    this.path = path
  }

  describe () { return this.kshim.request('GET', this.path) }

  // Resolves the moment that all of it is true, e.g. { state: 'Stable', members: 2, timeout: 10 }.
  wait (what) { return this.kshim.request('GET', `${this.path}/wait?${new URLSearchParams(what)}`) }

  waitStable (what = {}) { return this.wait({ state: 'Stable', ...what }) }

  waitEmpty (what = {}) { return this.wait({ state: 'Empty', ...what }) }

  waitCommitted (topic, partition, offset) { return this.wait({ topic, partition, offset }) }

  async rebalances () { return (await this.kshim.request('GET', `${this.path}/rebalances`)).rebalances }

  async explain () { return (await this.kshim.request('GET', `${this.path}/explain`)).explanation }

  expel (member) { return this.kshim.request('POST', `${this.path}/expel`, { member }) }
}
