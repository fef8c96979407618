import { EventType } from '../../src/gen/mvccpb/kv.js';
import { type MemoryEtcdOptions, MemoryEtcd as UnchangedEtcd } from '../../src/testing/index.js';
import type { Route } from '../../src/testing/memory/service.js';

// Stands for `etcdwire/testing` in tests that `etcdwire replay --test` has written. The variable ETCDWIRE_CHANGE changes
// the behavior of the server.

export * from '../../src/testing/index.js';

// biome-ignore lint/suspicious/noExplicitAny: the routes of a server have messages of all types
type Message = any;

/** Changes of a server, each as a function that replaces the route of a method. */
const CHANGES: Readonly<Record<string, (path: string, route: Route) => Route>> = {
  'a put answers the next revision': (path, route) => {
    if (!path.endsWith('/Put') || !('unary' in route)) return route;
    return {
      ...route,
      unary: async (request, call) => {
        const answer: Message = await route.unary(request, call);
        return { ...answer, header: { ...answer.header, revision: answer.header.revision + 1n } };
      },
    };
  },
  'every comparison holds': (path, route) => {
    if (!path.endsWith('/Txn') || !('unary' in route)) return route;
    return { ...route, unary: (request, call) => route.unary({ ...(request as object), compare: [] }, call) };
  },
  'watches lose deletions': (path, route) => {
    if (!path.endsWith('/Watch') || !('streaming' in route)) return route;
    const isKept = ({ type }: Message): boolean => type !== EventType.DELETE;
    return {
      ...route,
      streaming: (responses, call) =>
        route.streaming(
          {
            send: (message: Message) => responses.send({ ...message, events: message.events?.filter(isKept) }),
            end: (error) => responses.end(error),
          },
          call,
        ),
    };
  },
};

export class MemoryEtcd extends UnchangedEtcd {
  constructor(options?: MemoryEtcdOptions) {
    super(options);
    const change = CHANGES[process.env.ETCDWIRE_CHANGE ?? ''];
    const [member] = this.members;
    if (member === undefined || change === undefined) return;
    const find = member.find.bind(member);
    member.find = (path) => change(path, find(path));
  }
}
