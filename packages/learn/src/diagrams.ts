import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

// Draws the sequence diagrams of course/diagrams. Run this script with:
//   npm run docs:diagrams
//
// The source of a diagram is a .txt file. Its first line names the participants. Each further line is one step, from
// top to bottom:
//   A -> B: a message    A x> B: a message that is lost    A: what happens at A

export const DIAGRAMS = fileURLToPath(new URL('../course/diagrams/', import.meta.url));

const COLUMN_PX = 340;
const ROW_PX = 44;
const MARGIN_PX = 90;
/** The width of a character of the font, for boxes around text. */
const CHARACTER_PX = 7;
const STEP = /^(?<from>[^:>]+?)(?: (?<arrow>->|x>) (?<to>[^:]+))?: (?<text>.+)$/;

/** The colors follow the theme of the reader, because GitHub and browsers apply the media query inside an SVG file. */
const STYLE = `
  text { font: 13px system-ui, sans-serif; fill: #1f2328; text-anchor: middle }
  .name { font-weight: 600 } .line { stroke: #8c959f } .arrow { stroke: #0969da } .lost { stroke: #cf222e }
  .head { fill: #0969da } .note { fill: #fff8c5; stroke: #d4a72c } .cross { fill: #cf222e; font-weight: 700 }
  @media (prefers-color-scheme: dark) {
    text { fill: #e6edf3 } .line { stroke: #6e7681 } .arrow { stroke: #58a6ff } .lost { stroke: #ff7b72 }
    .head { fill: #58a6ff } .note { fill: #3b2e0a; stroke: #9e6a03 } .cross { fill: #ff7b72 }
  }`;

/** Returns the SVG file of a diagram. @throws Error if a line is not a step between the participants. */
export function draw(source: string): string {
  const [first = '', ...lines] = source.trimEnd().split('\n');
  const names = first.split(' | ');
  const width = 2 * MARGIN_PX + (names.length - 1) * COLUMN_PX;
  const height = (lines.length + 2) * ROW_PX;
  const xOf = (name: string): number => {
    const index = names.indexOf(name);
    if (index === -1) throw new Error(`"${name}" is not a participant; there are: ${names.join(', ')}`);
    return MARGIN_PX + index * COLUMN_PX;
  };
  const columns = names.map((name) => {
    const x = xOf(name);
    const line = `<line class="line" x1="${x}" y1="${ROW_PX}" x2="${x}" y2="${height - 10}"/>`;
    return `<text class="name" x="${x}" y="${ROW_PX - 14}">${escaped(name)}</text>${line}`;
  });
  const steps = lines.map((line, index) => {
    const { from = '', arrow, to = '', text = '' } = STEP.exec(line)?.groups ?? {};
    if (text === '') throw new Error(`"${line}" is not a step`);
    const y = (index + 2) * ROW_PX;
    return arrow === undefined ? note(xOf(from), y, text, width) : message(xOf(from), xOf(to), y, text, arrow === 'x>');
  });
  const label = escaped(`Sequence diagram. ${lines.join('. ')}`);
  const size = `viewBox="0 0 ${width} ${height}" width="${width}" height="${height}"`;
  const body = [`<style>${STYLE}\n</style>`, ...columns, ...steps].join('\n');
  return `<svg xmlns="http://www.w3.org/2000/svg" ${size} role="img" aria-label="${label}">\n${body}\n</svg>\n`;
}

function message(from: number, to: number, y: number, text: string, isLost: boolean): string {
  const side = Math.sign(to - from);
  const end = isLost ? from + 0.6 * (to - from) : to - side;
  const head = `<path class="head" d="M${end} ${y}l${-9 * side} -5v10z"/>`;
  const tip = isLost ? `<text class="cross" x="${end + 8 * side}" y="${y + 5}">×</text>` : head;
  const line = `<line class="${isLost ? 'lost' : 'arrow'}" x1="${from}" y1="${y}" x2="${end}" y2="${y}"/>`;
  return `<text x="${(from + to) / 2}" y="${y - 7}">${escaped(text)}</text>${line}${tip}`;
}

function note(x: number, y: number, text: string, width: number): string {
  const box = text.length * CHARACTER_PX + 20;
  const center = Math.min(Math.max(x, box / 2 + 4), width - box / 2 - 4);
  const rectangle = `<rect class="note" x="${center - box / 2}" y="${y - 18}" width="${box}" height="26" rx="4"/>`;
  return `${rectangle}<text x="${center}" y="${y}">${escaped(text)}</text>`;
}

function escaped(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('"', '&quot;');
}

if (process.argv[1] === fileURLToPath(import.meta.url))
  for (const file of readdirSync(DIAGRAMS).filter((name) => name.endsWith('.txt')))
    writeFileSync(`${DIAGRAMS}${file.replace('.txt', '.svg')}`, draw(readFileSync(DIAGRAMS + file, 'utf8')));
