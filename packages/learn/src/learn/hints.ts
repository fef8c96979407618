// The hints of the exercises: what to think of first, and then how to begin.

/** The hints by the number of the chapter, for its exercises 1 to 3. */
export const HINTS: Readonly<Record<number, readonly (readonly string[])[]>> = {
  1: [
    [
      'The frame has 9 bytes of header, and 6 bytes for each entry. So you know its length before you write it.',
      'Allocate the Buffer with Buffer.alloc(9 + 6 * entries.length). writeUIntBE(length, 0, 3) writes three bytes.',
    ],
    [
      'Check the number of bytes before you read any of them.',
      'The type is the byte at offset 3. The stream is the number of four bytes at offset 5.',
    ],
    [
      'Return a new Promise, and start a timer in it. Whichever comes first, the timer or the bytes, settles the promise.',
      "The event 'data' takes the bytes out of the socket. The event 'readable' only says that there are some.",
    ],
  ],
  2: [
    [
      'Make an array of names in which the position of a name is the type of the frame. The types 2 and 5 exist, too.',
      'Only SETTINGS and PING have ACK. Compare the type before you look at the flags.',
    ],
    [
      'Copy readFrames. What is the earliest moment at which you know the length of the payload?',
      'Read the length as soon as rest has 3 bytes, and throw before the condition that waits for the whole frame.',
    ],
    [
      'Open a connection, remember the time, send a PING, and read frames until the answer.',
      'The answer has three properties: the type PING, the flag ACK, and the eight bytes that you sent.',
    ],
  ],
  3: [
    [
      'A number that is less than 2 ** bits - 1 is its own byte. Why does 2 ** bits - 1 itself not fit?',
      'Otherwise the first byte is 2 ** bits - 1. Encode the rest in groups of seven bits, the lowest group first.',
    ],
    [
      'First make a Map from each character to its code, as a text of zeros and ones. decodeHuffman shows the order.',
      'Join the codes to one text, add ones with padEnd until its length is a multiple of 8, and cut it into bytes.',
    ],
    [
      'Both fields are entries of the static table, so each needs one byte that begins with the bit 1.',
      'Count the entries from 2 on: which numbers do :method: POST and :scheme: http have? Add 128 to each.',
    ],
  ],
  4: [
    [
      'Write a function that reads one varint, and returns its value and the position after it.',
      'After the tag, read one more varint. With wire type 2 it is a length: skip so many bytes.',
    ],
    [
      'The positive numbers become the even ones, and the negative numbers the odd ones.',
      'n becomes 2n if it is not negative. What must -1 give, and -2? Keep to bigint, because a number has 53 bits.',
    ],
    [
      'If a message contains an integer or a text twice, which of them does Message.int or Message.bytes return?',
      'A message is a sequence of fields without a beginning or an end, so two messages in a row are one message.',
    ],
  ],
  5: [
    [
      'Take the function request of the example, without its timer, and with the connection as a parameter.',
      'The fields are those of the PutRequest in chapter 4. Wait for request, and ignore its result.',
    ],
    [
      'Each call of connection.start opens a new stream at once. Nothing forces you to wait before the next one.',
      'Promise.all(keys.map(async (key) => …)) starts all calls, and keeps the order. messages(2) may be empty.',
    ],
    ['The request has no fields, so its message is encode({}).', 'bytes(2) returns a Buffer. Make a text of it.'],
  ],
  6: [
    [
      'List the statuses that prove that the server has refused the call. Every other status leaves the outcome unknown.',
      'The table of the chapter does not name each status. A list of the unknown ones would miss 8 and 15.',
    ],
    [
      'Two promises race: the call, and a promise that a timer rejects.',
      'Promise.race([call(…), late]). Set status = 4 on the CallError, and stop the timer when the race is over.',
    ],
    [
      'A loop with a new Connection in each round. Which errors may the loop swallow?',
      'Throw if it was the last attempt, if the error is no CallError, or if its status is not 14.',
    ],
  ],
  7: [
    [
      'Begin with a copy of watch. Change the request, and collect the events of a response before you yield them.',
      'Set next once for each response, to the revision of its last event + 1n. Yield nothing for a response without events.',
    ],
    [
      'The previous KeyValue is in the Event, beside the new one, and not in the KeyValue.',
      'event.messages(3)[0]?.bytes(5). The array is empty if the key did not exist.',
    ],
    [
      'Where does watch look for the end of the watch? Look for the compaction before that.',
      "response.int(5) is 0n unless revisions are missing. Object.assign(new Error('…'), { compactRevision }).",
    ],
  ],
  8: [
    ['Use call of chapter 6. int returns a bigint.', 'call(connection, path, { 1: id }), and then int(3).'],
    [
      'It is the put of chapter 5, with one more field.',
      'The ID of the lease is an integer, so pass it to encode as a bigint, and not as a text.',
    ],
    [
      'messages(2) returns one nested message for each lease.',
      'The request has no fields. Map each nested message to its int(1).',
    ],
  ],
  9: [
    [
      'transact has the condition that you need. With which create revision does it say that a key does not exist?',
      'transact(connection, key, 0n, [put], []), and then the field succeeded of the response.',
    ],
    [
      'Read the key, compute the sum, and write it only if the key is still the same. What if it is not?',
      'In a loop: a Range, and a Txn with TARGET.modRevision, COMPARE.modRevision. Return only if it succeeded.',
    ],
    [
      'One Range reads all keys from name/ to name0. By default, they come in the order of their names.',
      'Sort with RANGE.sortTarget: SORT.byCreateRevision and RANGE.sortOrder: SORT.ascending.',
    ],
  ],
  10: [
    [
      'Call lock, and then the action. What must happen if the action throws?',
      'return await the action in a try block, and unlock in its finally block.',
    ],
    [
      'You cannot use lock, because it waits. Do its first steps yourself: grant, enter, and one look at the queue.',
      'Read one key with maxCreateRevision: token - 1n. If there is one, revoke the lease and close the connection.',
    ],
    [
      'Two promises race: waitForTurn, and a promise that rejects when the signal aborts.',
      'A signal that has aborted before sends no event. After the race, check that your key still exists (ifHeld).',
    ],
  ],
  11: [
    [
      'The read and the write both belong between the beginning and the end of the lock.',
      'withLock(etcd, name, async (held) => …): get the text, and put it with held.txn({ then: [op.put(…)] }).',
    ],
    [
      'Begin with lock of the chapter, and pass { maxWaitMs: ms } to mutex.lock.',
      "Catch the error, close the client, and return undefined only if error.reason === 'LockTaken'.",
    ],
    [
      'In a loop: withLock with the action. Keep held in a variable outside, because the catch block needs its signal.',
      "Throw the error again unless held.signal.reason is an EtcdError with another reason than 'LockReleased'.",
    ],
  ],
  12: [
    [
      'Decide in the order of the questions of the chapter: is there a status, has an answer begun, is there a message?',
      'A Put whose HEADERS have arrived was applied. For a Txn, only the message says whether its condition held.',
    ],
    [
      'callsIn gives you each call with its requests and its responses, both in their order.',
      'Pair requests[i] with responses[i]. A missing response counts as Infinity, and Math.max(0, …) gives the answer.',
    ],
    [
      'How many Puts are in each recording, and which of them have a status? That separates all faults but delay.',
      'Each recording has its own clock: compute the duration of the Put in each, and compare the two durations.',
    ],
  ],
};
