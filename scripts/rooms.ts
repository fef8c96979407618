/** A room of src/, or a package: see src/README.md. */
export interface Room {
  /** The folder in src/, or in packages/. */
  readonly folder: string;
  /** The files through which other rooms import the room, without the ending. Default: `index`. */
  readonly doors?: readonly string[];
  /** The lines of code that the room should have at most, without blank lines and comments. */
  readonly target: number;
  /** The files and folders that may use APIs of Node.js. Browsers and other runtimes load all other code. */
  readonly nodeOnly?: readonly string[];
  /** Whether the package is not published. Its code may also import scripts and helpers of tests. */
  readonly isPrivate?: boolean;
}

/** All files of a folder. As a door: each file. */
const ALL = [''];

/** The rooms of src/, lowest first. A room imports only from rooms that come earlier in this list. */
export const ROOMS: readonly Room[] = [
  // The causes and remedies of errors have a door of their own, because programs that do not print them do not load them.
  { folder: 'base', target: 1150, doors: ['index', 'reason-texts'] },
  // In the built package, `#host` replaces `host/node`: the module of the runtime. Its types, unlike those of the other
  // doors, need the types of Node.js.
  { folder: 'host', target: 600, doors: ['index', 'node', 'part-file'], nodeOnly: ['node.ts', 'part-file.ts'] },
  { folder: 'wire', target: 3350 },
  // The code is generated: one file for each package of protos, and one for each service.
  { folder: 'gen', target: 2000, doors: ALL },
  { folder: 'rpc', target: 1650 },
  { folder: 'client', target: 3150 },
  { folder: 'extras/ranges', target: 450 },
  { folder: 'locks', target: 2100 },
  { folder: 'extras/keys', target: 360 },
  { folder: 'extras/writes', target: 300 },
  { folder: 'extras/full', target: 300 },
  // A module that needs an optional package has a door of its own, because programs without this package load the other
  // door.
  { folder: 'extras/recipes', target: 3800, doors: ['index', 'grpc-resolver'] },
  {
    folder: 'extras/transports',
    target: 1120,
    doors: ['gateway/index', 'grpc-js/transport', 'json/index'],
    nodeOnly: ['grpc-js/'],
  },
  { folder: 'extras/observe', target: 400, doors: ['index', 'opentelemetry'] },
  { folder: 'extras/node', target: 270, nodeOnly: ALL },
  // `internal` is the door for the packages. `index` is an entry point of etcdwire.
  { folder: 'testing', target: 8000, doors: ['index', 'internal'], nodeOnly: ALL },
];

/**
 * The packages in packages/, lowest first. The code of a package is in its folder `src`. It imports from src/ only the
 * entry points of etcdwire and `src/internal.ts`, and from packages that come earlier only through their doors.
 */
export const PACKAGES: readonly Room[] = [
  { folder: 'cli', target: 11_500, doors: ['index', 'program'] },
  { folder: 'migrate', target: 1300, doors: [] },
  { folder: 'learn', target: 3600, doors: [], isPrivate: true },
];

/** A room or a package with the folder of its code, as a path from the root of the repository that ends with a slash. */
export interface Place extends Room {
  readonly path: string;
  readonly isPackage: boolean;
}

/** All rooms and packages, lowest first. */
export const PLACES: readonly Place[] = [
  ...ROOMS.map((room) => ({ ...room, path: `src/${room.folder}/`, isPackage: false })),
  ...PACKAGES.map((room) => ({ ...room, path: `packages/${room.folder}/src/`, isPackage: true })),
];

/** Returns the doors of a place as paths from the root of the repository. A path of a folder ends with a slash. */
export function doorsOf({ path, doors = ['index'] }: Place): string[] {
  return doors.map((door) => (door === '' ? path : `${path}${door}.ts`));
}

/** The folders of the code of the library and of all packages, without a slash at the end. */
export const CODE_FOLDERS: readonly string[] = ['src', ...PACKAGES.map(({ folder }) => `packages/${folder}/src`)];
