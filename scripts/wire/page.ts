import type { Scenes } from './scenario.js';
import { sceneText } from './text.js';

const BLOCK = /^```text ([^\n]+)\n.*?^```$/gms;

/**
 * Returns the Markdown page after replacing the content of each `text` code block with the text of an HTTP/2 frame. The
 * first line of a block contains the name of the frame in `scenes`.
 *
 * @throws Error if `scenes` contains no frame with this name.
 */
export function withScenes(page: string, scenes: Scenes): string {
  return page.replace(BLOCK, (_, name: string) => {
    const frame = scenes.get(name);
    if (frame === undefined) throw new Error(`no scene "${name}"; there are: ${[...scenes.keys()].join(', ')}`);
    return `\`\`\`text ${name}\n${sceneText(frame)}\n\`\`\``;
  });
}
