import { basename } from 'node:path';
import {
  escapeControls,
  isJsonObject,
  type JsonValue,
  type MemoryVersion,
  type Recording,
} from '../../../../src/internal.js';
import { StepDescriber } from './step-text.js';

const MAX_LINE = 118;
/** A test with more steps gets a time limit, of so many milliseconds for each step. */
const [MANY_STEPS, MS_OF_STEP] = [1_000, 10];

/** Returns the source text of a test for vitest that replays a recording at a `MemoryEtcd`. */
export function testFile({ before, steps }: Recording, version: MemoryVersion | undefined, file: string): string {
  const name = escapeControls(basename(file));
  const describer = new StepDescriber();
  const lines = steps.flatMap((step) => [
    comment(describer.sentence(step)),
    `    ${literal(step as unknown as JsonValue, 4, MAX_LINE - 5)},`,
  ]);
  // The default of vitest is 5 s.
  const limit = steps.length > MANY_STEPS ? `{ timeout: ${steps.length * MS_OF_STEP} }, ` : '';
  const options = version === undefined ? '{ clock }' : `{ clock, version: '${version}' }`;
  return [
    '// Written by `etcdwire replay --test`. Each step is what a program asked of etcd, and what etcd answered. The replay',
    '// asks the same of the server, and returns the fields in which its answers differ.',
    "import { ManualClock, MemoryEtcd, type Recording, replay } from 'etcdwire/testing';",
    "import { expect, test } from 'vitest';",
    '',
    `test(${quote(`the server answers as in the recording ${name}`)}, ${limit}async () => {`,
    '  const clock = new ManualClock();',
    `  const server = new MemoryEtcd(${options});`,
    '  expect(await replay(recording, server, { clock })).toEqual([]);',
    '});',
    '',
    'const recording: Recording = {',
    `  before: ${literal(before as unknown as JsonValue, 2, MAX_LINE - 11)},`,
    '  steps: [',
    ...lines,
    '  ],',
    '};',
    '',
  ].join('\n');
}

function comment(text: string): string {
  const line = `    // ${escapeControls(text)}`;
  return line.length <= MAX_LINE ? line : `${line.slice(0, MAX_LINE - 1)}…`;
}

/** Formats a value as JavaScript, on one line if it fits. */
function literal(value: JsonValue, indent: number, room: number): string {
  const flat = flatLiteral(value);
  if (flat.length <= room || typeof value !== 'object' || value === null) return flat;
  const isList = Array.isArray(value);
  const inner = ' '.repeat(indent + 2);
  const parts = isList
    ? value.map((item) => literal(item as JsonValue, indent + 2, MAX_LINE - indent - 3))
    : Object.entries(value).map(([name, item]) => {
        const head = `${propertyName(name)}: `;
        return head + literal(item as JsonValue, indent + 2, MAX_LINE - indent - 3 - head.length);
      });
  const [open, close] = isList ? ['[', ']'] : ['{', '}'];
  return `${open}\n${parts.map((part) => `${inner}${part},\n`).join('')}${' '.repeat(indent)}${close}`;
}

function flatLiteral(value: JsonValue): string {
  if (typeof value === 'string') return quote(value);
  if (Array.isArray(value)) return `[${value.map((item) => flatLiteral(item as JsonValue)).join(', ')}]`;
  if (!isJsonObject(value)) return JSON.stringify(value);
  const fields = Object.entries(value).map(([name, item]) => `${propertyName(name)}: ${flatLiteral(item)}`);
  return fields.length === 0 ? '{}' : `{ ${fields.join(', ')} }`;
}

function propertyName(name: string): string {
  return /^[A-Za-z_]\w*$/.test(name) ? name : quote(name);
}

function quote(text: string): string {
  const content = escapeControls(JSON.stringify(text).slice(1, -1));
  return `'${content.replaceAll('\\"', '"').replaceAll("'", "\\'")}'`;
}
