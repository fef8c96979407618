import type { Scenes } from './scenario.js';
import { sceneText } from './text.js';

const BLOCK = /^```text ([^\n]+)\n.*?^```$/gms;

/**
 * Returns the page with the frames of this run in its text blocks. The first line of each block names the scene to
 * show.
 *
 * @throws Error if no scene has this name.
 */
export function withScenes(page: string, scenes: Scenes): string {
  return page.replace(BLOCK, (_, name: string) => {
    const frame = scenes.get(name);
    if (frame === undefined) throw new Error(`no scene "${name}"; there are: ${[...scenes.keys()].join(', ')}`);
    return `\`\`\`text ${name}\n${sceneText(frame)}\n\`\`\``;
  });
}
