/** Values that code may throw, but whose name, message or text cannot be read. Each call creates a new value. */
export const ODD_ERRORS: Readonly<Record<string, () => unknown>> = {
  'an object without a prototype': () => Object.create(null),
  'an Error whose message is an object': () => Object.assign(new Error('x'), { message: Object.create(null) }),
  'an Error whose message is a symbol': () => Object.assign(new Error('x'), { message: Symbol('x') }),
  'an Error whose message cannot be read': () => Object.defineProperty(new Error('x'), 'message', { get: fail }),
  'an Error whose name cannot be read': () => Object.defineProperty(new Error('x'), 'name', { get: fail }),
  'a value whose toString throws': () => ({ toString: fail, [Symbol.toPrimitive]: fail }),
  'an object whose class cannot be read': () => Object.create(Object.defineProperty({}, 'constructor', { get: fail })),
  'an object whose class has no text as its name': () => Object.create({ constructor: { name: Symbol('x') } }),
  'a Proxy all of whose traps throw': () => new Proxy({}, new Proxy({}, { get: () => fail })),
  'a symbol': () => Symbol('x'),
  undefined: () => undefined,
  null: () => null,
};

function fail(): never {
  throw new Error('a trap or a getter of a test');
}
