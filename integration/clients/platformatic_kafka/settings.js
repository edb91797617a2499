import { readFile } from 'node:fs/promises'
import { Admin, Consumer, FetchIsolationLevels, Producer } from '@platformatic/kafka'

/** What "open" said, and the clients made with it. */
export class Settings {
  #common = {}
  #group = {}
  #admin

  async open ({ bootstrap, security, group_protocol: groupProtocol }) {
    this.#common = { clientId: 'driver', bootstrapBrokers: [bootstrap] }
    this.#group = groupProtocol === undefined ? {} : { groupProtocol }
    if (security !== undefined) {
      await this.#secure(security)
    }
    await this.#admin?.close()
    this.#admin = undefined
  }

  async #secure ({ protocol, ca, certificate, key, mechanism, username, password }) {
    if (protocol.endsWith('SSL')) {
      this.#common.tls = {
        ...(ca && { ca: await readFile(ca) }),
        ...(certificate && { cert: await readFile(certificate), key: await readFile(key) })
      }
    }
    if (mechanism !== undefined) {
      this.#common.sasl = { mechanism, username, password }
    }
  }

  /** The one admin client, made on first use. */
  get admin () {
    this.#admin ??= new Admin(this.#common)
    return this.#admin
  }

  /** Whether groups are those of KIP-848. */
  get hasConsumerProtocol () {
    return this.#group.groupProtocol === 'consumer'
  }

  producer (options = {}) {
    return new Producer({ ...this.#common, ...options })
  }

  consumer (options) {
    return new Consumer({ ...this.#common, ...this.#group, autocommit: false, ...options })
  }
}

/** The option of a consumer, none unless named. The client's default is read_committed, unlike others'. */
export function isolation (level) {
  return level === undefined ? {} : { isolationLevel: FetchIsolationLevels[level.toUpperCase()] }
}

/** Strings to bytes, null and undefined to undefined: what the client takes for null. */
export function bytes (text) {
  return text === null || text === undefined ? undefined : Buffer.from(text)
}

/** Bytes to strings, none to null. */
export function text (bytes) {
  return bytes === undefined || bytes === null ? null : bytes.toString()
}
