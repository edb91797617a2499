import assert from 'node:assert/strict'
import { after, before, beforeEach, test } from 'node:test'
import { Consumer, stringDeserializers } from '@platformatic/kafka'
import { Kshim } from './kshim.mjs'

let kshim

before(async () => { kshim = await Kshim.start({ topics: { orders: 1 } }) })
beforeEach(() => kshim.reset())
after(() => kshim.stop())

function billing () {
  return new Consumer({ clientId: 'billing-1', groupId: 'billing', bootstrapBrokers: kshim.bootstrapBrokers, deserializers: stringDeserializers, autocommit: false })
}

test('an order is billed, and its offset committed', async () => {
  await kshim.produce('orders', { value: 'one coffee' })
  const consumer = billing()
  const stream = await consumer.consume({ topics: ['orders'], mode: 'committed', fallbackMode: 'earliest' })
  await kshim.group('billing').waitStable({ members: 1 })
  for await (const message of stream) {
    assert.equal(message.value, 'one coffee')
    await message.commit()
    break
  }
  await kshim.group('billing').waitCommitted('orders', 0, 1)
  await consumer.close(true)
  await kshim.group('billing').waitEmpty()
})

test('a consumer that is expelled comes back', async () => {
  const consumer = billing()
  const stream = await consumer.consume({ topics: ['orders'], mode: 'committed', heartbeatInterval: 100 })
  const group = kshim.group('billing')
  const { members: [{ member_id: first }] } = await group.waitStable({ members: 1 })
  await group.expel(first)
  const { members: [{ member_id: second }] } = await group.waitStable({ members: 1, generation: 2 })
  assert.notEqual(second, first)
  assert.match(await group.explain(), /administrator/)
  await stream.close()
  await consumer.close(true)
})

test('a fault that no request has met fails the test', async () => {
  await kshim.fault({ on: 'Heartbeat', match: { group: 'nobody' }, do: { error: 'NOT_COORDINATOR' }, when: 'once', name: 'moved' })
  await assert.rejects(kshim.assertFaultsUsed(), /moved .* never fired/)
})
