// The client @platformatic/kafka behind the driver contract of docs/design/clients.md: one JSON object a line in, one out.
import { createInterface } from 'node:readline'
import { inspect } from 'node:util'
import { clientSoftwareVersion } from '@platformatic/kafka'
import { adminCommands } from './admin.js'
import { dataCommands } from './data.js'
import { errorName, Unsupported } from './errors.js'
import { memberCommands } from './members.js'
import { Settings } from './settings.js'
import { transactionCommands } from './transactions.js'

inspect.defaultOptions.depth = 8 // errors hold the errors of each try
const settings = new Settings()
const commands = {
  async open (fields) {
    await settings.open(fields)
    return { client: '@platformatic/kafka', version: clientSoftwareVersion }
  },
  ...adminCommands(settings),
  ...dataCommands(settings),
  ...memberCommands(settings),
  ...transactionCommands(settings)
}

async function answer (fields) {
  const run = commands[fields.do]
  if (run === undefined) {
    return { unsupported: `@platformatic/kafka has nothing that answers ${fields.do}` }
  }
  try {
    return { ok: (await run(fields)) ?? {} }
  } catch (error) {
    if (error instanceof Unsupported) {
      return { unsupported: error.message }
    }
    console.error(fields.do, error)
    return { error: errorName(error), message: String(error.message) }
  }
}

// A broken stream also rejects promises that nobody waits for; what the application sees is told in the member's log.
process.on('unhandledRejection', error => console.error('unhandled', error))

for await (const line of createInterface({ input: process.stdin })) {
  process.stdout.write(JSON.stringify(await answer(JSON.parse(line)), (_, value) => typeof value === 'bigint' ? Number(value) : value) + '\n')
}
process.exit(0) // members that were never stopped go on otherwise
