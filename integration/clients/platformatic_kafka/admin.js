import { ConfigResourceTypes, findErrorBy, IncrementalAlterConfigOperationTypes } from '@platformatic/kafka'
import { errorName, Unsupported } from './errors.js'

export function adminCommands (settings) {
  const commands = {
    createTopics, createPartitions, deleteTopics, listTopics, describeTopic, describeCluster, describeConfigs, alterConfigs,
    deleteRecords, listGroups, describeGroup, groupOffsets, alterGroupOffsets, deleteGroupOffsets, deleteGroups
  }
  const named = ([name, run]) => [name.replace(/[A-Z]/g, letter => '_' + letter.toLowerCase()), fields => run(settings.admin, fields)]
  return Object.fromEntries(Object.entries(commands).map(named))
}

/** Run a promise for each name: its error's name, or NONE. The client asks for several at once but tells one error. */
async function errorNames (names, run) {
  const errors = {}
  for (const name of names) {
    try {
      await run(name)
      errors[name] = 'NONE'
    } catch (error) {
      errors[name] = errorName(error)
    }
  }
  return errors
}

async function createTopics (admin, { topics }) {
  const byName = Object.fromEntries(topics.map(topic => [topic.name, topic]))
  return {
    topics: await errorNames(Object.keys(byName), name => {
      const { partitions, configs = {} } = byName[name]
      const entries = Object.entries(configs).map(([name, value]) => ({ name, value }))
      return admin.createTopics({ topics: [name], partitions, replicas: -1, configs: entries })
    })
  }
}

async function createPartitions (admin, { topic, count }) {
  await admin.createPartitions({ topics: [{ name: topic, count, assignments: null }] })
}

async function deleteTopics (admin, { topics }) {
  return { topics: await errorNames(topics, topic => admin.deleteTopics({ topics: [topic] })) }
}

async function listTopics (admin) {
  return { topics: await admin.listTopics({ includeInternals: true }) }
}

async function describeTopic (admin, { topic }) {
  const metadata = await admin.metadata({ topics: [topic], forceUpdate: true }).catch(error => {
    // The client puts words of its own for Kafka's error, once it has tried again.
    throw error.message.startsWith('Unknown topic') ? Object.assign(error, { apiId: 'UNKNOWN_TOPIC_OR_PARTITION' }) : error
  })
  const partitions = metadata.topics.get(topic).partitions.map(({ leader, replicas, isr }, partition) => ({ partition, leader, replicas, isr }))
  return { partitions }
}

async function describeCluster (admin) {
  const metadata = await admin.metadata({ topics: [], forceUpdate: true })
  return { nodes: Array.from(metadata.brokers, ([id, { host, port }]) => ({ id, host, port })) }
}

function topicResource (resourceName) {
  return { resourceType: ConfigResourceTypes.TOPIC, resourceName }
}

async function describeConfigs (admin, { topic }) {
  const [described] = await admin.describeConfigs({ resources: [{ ...topicResource(topic), configurationKeys: null }] })
  return { configs: Object.fromEntries(described.configs.map(({ name, value }) => [name, value])) }
}

async function alterConfigs (admin, { topic, set, delete: unset }) {
  const { SET, DELETE } = IncrementalAlterConfigOperationTypes
  const configs = [
    ...Object.entries(set).map(([name, value]) => ({ name, value, configOperation: SET })),
    ...unset.map(name => ({ name, value: null, configOperation: DELETE }))
  ]
  await admin.incrementalAlterConfigs({ resources: [{ ...topicResource(topic), configs }] })
}

/** [[topic, partition, ...rest]] to [[topic, [[partition, ...rest]]]]. */
function byTopic (lists) {
  const topics = new Map()
  for (const [topic, ...rest] of lists) {
    topics.set(topic, [...(topics.get(topic) ?? []), rest])
  }
  return Array.from(topics)
}

async function deleteRecords (admin, { offsets }) {
  const topics = byTopic(offsets).map(([name, partitions]) => ({
    name, partitions: partitions.map(([partition, offset]) => ({ partition, offset: BigInt(offset) }))
  }))
  const deleted = await admin.deleteRecords({ topics })
  return {
    low_watermarks: deleted.flatMap(({ name, partitions }) =>
      partitions.map(({ partition, lowWatermark }) => [name, partition, lowWatermark]))
  }
}

async function listGroups (admin) {
  return { groups: Array.from((await admin.listGroups()).keys()) }
}

async function describeGroup (admin, { group }) {
  let described
  try {
    described = (await admin.describeGroups({ groups: [group] })).get(group)
  } catch (error) {
    if (!findErrorBy(error, 'apiId', 'GROUP_ID_NOT_FOUND')) {
      throw error
    }
    if ((await admin.listGroups({ types: ['consumer'] })).has(group)) {
      throw new Unsupported('@platformatic/kafka describes groups of the classic protocol only')
    }
    return { state: 'Dead', assignor: '', members: [] }
  }
  const members = Array.from(described.members.values(), member => ({
    member_id: member.id,
    instance_id: member.groupInstanceId,
    client_id: member.clientId,
    partitions: Array.from(member.assignments?.values() ?? []).flatMap(({ topic, partitions }) => partitions.map(each => [topic, each]))
  }))
  return { state: stateName(described.state), assignor: described.protocol, members }
}

/** The client writes states in its own way: PREPARING_REBALANCE. */
function stateName (state) {
  return /^[A-Z_]+$/.test(state) ? state.split('_').map(word => word[0] + word.slice(1).toLowerCase()).join('') : state
}

async function groupOffsets (admin, { group }) {
  const [listed] = await admin.listConsumerGroupOffsets({ groups: [group] })
  return {
    offsets: listed.topics.flatMap(({ name, partitions }) => partitions
      .filter(({ committedOffset }) => committedOffset >= 0n)
      .map(({ partitionIndex, committedOffset }) => [name, partitionIndex, committedOffset]))
  }
}

async function alterGroupOffsets (admin, { group, offsets }) {
  const topics = byTopic(offsets).map(([name, partitions]) => ({
    name, partitionOffsets: partitions.map(([partition, offset]) => ({ partition, offset: BigInt(offset) }))
  }))
  await admin.alterConsumerGroupOffsets({ groupId: group, topics })
}

async function deleteGroupOffsets (admin, { group, partitions }) {
  const topics = byTopic(partitions).map(([name, numbers]) => ({ name, partitionIndexes: numbers.flat() }))
  await admin.deleteConsumerGroupOffsets({ groupId: group, topics })
}

async function deleteGroups (admin, { groups }) {
  return { groups: await errorNames(groups, group => admin.deleteGroups({ groups: [group] })) }
}
