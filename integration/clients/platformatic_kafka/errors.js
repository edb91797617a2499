/** What this client cannot express. The message goes on the page. */
export class Unsupported extends Error {}

/** Kafka's constant if the error is Kafka's, 'NONE' if there is none, else the client's own code or class. */
export function errorName (error) {
  if (error === undefined || error === null) {
    return 'NONE'
  }
  return kafkaName(error) ?? error.code ?? error.name
}

function kafkaName (error) {
  if (error.apiId !== undefined) {
    return error.apiId
  }
  for (const inner of [...(error.errors ?? []), ...(error.cause ? [error.cause] : [])]) {
    const name = kafkaName(inner)
    if (name !== undefined) {
      return name
    }
  }
  return undefined
}
