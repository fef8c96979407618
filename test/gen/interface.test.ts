import { readFileSync } from 'node:fs';
import protobuf from 'protobufjs';
import { describe, expect, it } from 'vitest';
import { descendants } from '../../scripts/generate/descriptors.js';
import { methods } from '../../src/gen/methods.js';
import { codecs, generated, isCodec, messageTypes, protoTree } from '../support/arbitraries.js';

interface MethodFact {
  readonly request: string;
  readonly response: string;
  readonly clientStreaming: boolean;
  readonly serverStreaming: boolean;
  readonly path: string;
}

interface FieldFact {
  readonly name: string;
  readonly number: number;
  readonly type: string;
  readonly repeated: boolean;
  readonly oneof: string | undefined;
}

interface Facts {
  readonly services: Record<string, Record<string, MethodFact>>;
  readonly messages: Record<string, { readonly fields: readonly (Omit<FieldFact, 'repeated'> & Partial<FieldFact>)[] }>;
  readonly enums: Record<string, { readonly values: Record<string, number> }>;
}

/** An entry of the generated table of RPC methods. */
interface Row {
  readonly path: string;
  readonly kind: string;
  readonly request: { readonly typeName: string };
  readonly response: { readonly typeName: string };
  readonly repeatable: boolean;
}

const facts: Facts = JSON.parse(readFileSync(new URL('../facts/etcd-v3-interface.json', import.meta.url), 'utf8'));
const factMethods = Object.values(facts.services).flatMap((service) => Object.values(service));
const rows = Object.values(methods).flatMap((service): Row[] => Object.values(service));
const enums = descendants(protoTree).filter((entry) => entry instanceof protobuf.Enum);

describe('the .proto files', () => {
  it("define exactly etcd's services and methods", () => {
    const services = descendants(protoTree).filter((entry) => entry instanceof protobuf.Service);
    expect(byName(services, (service) => byName(service.methodsArray, methodFact, 'name'))).toStrictEqual(
      facts.services,
    );
  });

  it("define exactly etcd's messages", () => {
    expect(messageTypes.map(nameOf).sort()).toStrictEqual(Object.keys(facts.messages).sort());
  });

  it.each(messageTypes.map((type) => [nameOf(type), type] as const))(
    'define exactly the fields that %s has in etcd',
    (name, type) => {
      const expected = facts.messages[name]?.fields.map((field): FieldFact => {
        const { number, type, repeated = false, oneof } = field;
        return { name: field.name, number, type, repeated, oneof };
      });
      expect(type.fieldsArray.map(fieldFact).sort(byNumber)).toStrictEqual(expected?.sort(byNumber));
    },
  );

  it("define exactly etcd's enums, with their values", () => {
    const expected = Object.entries(facts.enums).map(([name, { values }]) => [name, values]);
    expect(byName(enums, (type) => ({ ...type.values }))).toStrictEqual(Object.fromEntries(expected));
  });

  it('contain no map fields and no groups, which the generator does not support', () => {
    const fields = messageTypes.flatMap((type) => type.fieldsArray);
    expect(fields.filter((field) => field.map || field.delimited).map((field) => field.fullName)).toStrictEqual([]);
  });

  it('use explicit presence only for messages and oneofs, because the generator does not support other optional fields', () => {
    const scalars = messageTypes.flatMap((type) => type.fieldsArray).filter((field) => field.partOf === null);
    const explicit = scalars.filter((field) => field.hasPresence && !(field.resolvedType instanceof protobuf.Type));
    expect(explicit.map((field) => field.fullName)).toStrictEqual([]);
  });
});

describe('the generated code', () => {
  it('contains one codec for each message', () => {
    expect([...codecs.keys()].sort()).toStrictEqual(Object.keys(facts.messages).sort());
    const exported = Object.values(generated).flatMap((module) => Object.values(module).filter(isCodec));
    expect(exported).toHaveLength(codecs.size);
  });

  it('exports each enum under its name, and an enum "Type" of a message "M" as "MType"', () => {
    const expected = Object.entries(facts.enums).map(([name, { values }]) => {
      const words = name.split('.');
      return [`${words[0]}.${name.endsWith('.Type') ? words.slice(-2).join('') : words.at(-1)}`, values];
    });
    const exported = Object.entries(generated).flatMap(([module, exports]) =>
      Object.entries(exports).flatMap(([name, value]) => (isCodec(value) ? [] : [[`${module}.${name}`, value]])),
    );
    expect(Object.fromEntries(exported)).toStrictEqual(Object.fromEntries(expected));
  });
});

describe('the table of methods', () => {
  it('contains each of the 49 methods with its path, kind, request type and response type', () => {
    expect(rows).toHaveLength(49);
    const described = rows.map(({ path, kind, request, response }) => ({
      path,
      kind,
      request: request.typeName,
      response: response.typeName,
    }));
    const expected = factMethods.map((fact) => ({
      path: fact.path,
      kind: kindOf(fact),
      request: fact.request,
      response: fact.response,
    }));
    expect(described.sort(byPath)).toStrictEqual(expected.sort(byPath));
  });

  it('has one group for each service', () => {
    const groups = Object.values(methods).map((service) => {
      const paths = Object.values(service).map((row: Row) => row.path.split('/')[1]);
      return [...new Set(paths)];
    });
    expect(groups.sort()).toStrictEqual(
      Object.keys(facts.services)
        .map((name) => [name])
        .sort(),
    );
  });

  it('marks exactly Authenticate and the methods that change nothing as repeatable (S28)', () => {
    const repeatable = rows.filter((row) => row.repeatable).map((row) => row.path);
    expect(repeatable.sort()).toStrictEqual(
      [
        '/etcdserverpb.KV/Range',
        '/etcdserverpb.KV/RangeStream',
        '/etcdserverpb.Lease/LeaseTimeToLive',
        '/etcdserverpb.Lease/LeaseLeases',
        '/etcdserverpb.Cluster/MemberList',
        '/etcdserverpb.Maintenance/Status',
        '/etcdserverpb.Maintenance/Hash',
        '/etcdserverpb.Maintenance/HashKV',
        '/etcdserverpb.Auth/AuthStatus',
        '/etcdserverpb.Auth/Authenticate',
        '/etcdserverpb.Auth/UserGet',
        '/etcdserverpb.Auth/UserList',
        '/etcdserverpb.Auth/RoleGet',
        '/etcdserverpb.Auth/RoleList',
        '/v3electionpb.Election/Leader',
      ].sort(),
    );
  });
});

function nameOf(entry: protobuf.ReflectionObject): string {
  return entry.fullName.slice(1);
}

function byName<Entry extends protobuf.ReflectionObject, Fact>(
  entries: readonly Entry[],
  fact: (entry: Entry) => Fact,
  by: 'fullName' | 'name' = 'fullName',
): Record<string, Fact> {
  return Object.fromEntries(entries.map((entry) => [by === 'name' ? entry.name : nameOf(entry), fact(entry)]));
}

function methodFact(method: protobuf.Method): MethodFact {
  return {
    request: resolved(method.resolvedRequestType),
    response: resolved(method.resolvedResponseType),
    clientStreaming: method.requestStream ?? false,
    serverStreaming: method.responseStream ?? false,
    path: `/${method.parent?.fullName.slice(1)}/${method.name}`,
  };
}

function fieldFact(field: protobuf.Field): FieldFact {
  return {
    name: field.name,
    number: field.id,
    type: field.resolvedType === null ? field.type : nameOf(field.resolvedType),
    repeated: field.repeated,
    oneof: field.partOf?.name,
  };
}

function resolved(type: protobuf.Type | null): string {
  if (type === null) throw new Error('unresolved type');
  return nameOf(type);
}

function kindOf(fact: MethodFact): string {
  if (fact.clientStreaming) return fact.serverStreaming ? 'bidi-streaming' : 'client-streaming';
  return fact.serverStreaming ? 'server-streaming' : 'unary';
}

function byNumber(a: FieldFact, b: FieldFact): number {
  return a.number - b.number;
}

function byPath(a: { readonly path: string }, b: { readonly path: string }): number {
  return a.path < b.path ? -1 : 1;
}
