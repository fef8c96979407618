import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';

// docs/semantics.md defines the rules S1 to S46. Sources, tests, scripts and pages cite the rules by these numbers.

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const PAGE = 'docs/semantics.md';
const RULE_COUNT = 46;
const CITATION = /\bS(\d+)\b/g;
const TEXT_FILE = /\.(ts|md|js)$/;

const DEFINED = [...read(PAGE).matchAll(/^### S(\d+): /gm)].map(([, number]) => Number(number));
const FILES = [
  ...['src', 'test', 'scripts', 'docs'].flatMap((folder) =>
    readdirSync(join(ROOT, folder), { recursive: true, encoding: 'utf8' }).map((name) => `${folder}/${name}`),
  ),
  ...readdirSync(ROOT),
].filter((file) => TEXT_FILE.test(file) && !file.includes('node_modules'));

function read(file: string): string {
  return readFileSync(join(ROOT, file), 'utf8');
}

function citedIn(file: string): number[] {
  return [...read(file).matchAll(CITATION)].map(([, number]) => Number(number));
}

describe('docs/semantics.md', () => {
  it(`defines the rules S1 to S${RULE_COUNT}, each once and in order`, () => {
    expect(DEFINED).toEqual(Array.from({ length: RULE_COUNT }, (_, index) => index + 1));
  });

  it('has the number of rules that README.md and the page itself state', () => {
    const numbers = ['README.md', PAGE].map((page) => /(\d+) numbered rules/.exec(read(page))?.[1]);
    expect(numbers).toEqual([`${RULE_COUNT}`, `${RULE_COUNT}`]);
  });

  it('names a source for every rule', () => {
    const rules = read(PAGE).split(/^### /m).slice(1);
    expect(rules.filter((rule) => !/Source:\s/.test(rule)).map((rule) => rule.split(':')[0])).toEqual([]);
  });

  it.each(DEFINED)('defines S%i, and at least one test cites that rule', (number) => {
    const tests = FILES.filter((file) => file.endsWith('.test.ts') && !file.endsWith('/semantics.test.ts'));
    expect(tests.filter((file) => citedIn(file).includes(number))).not.toEqual([]);
  });

  it('defines every rule that a source, a test, a script or a page cites', () => {
    const unknown = FILES.flatMap((file) =>
      citedIn(file)
        .filter((number) => !DEFINED.includes(number))
        .map((number) => `${file} cites S${number}`),
    );
    expect(unknown).toEqual([]);
  });
});
