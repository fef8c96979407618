// What packages/learn uses: the decoder of traffic, and the parts of a trace's page.

export { tapped, type WireFrame, type WireMessage } from './inspect/index.js';
export { BODY_STYLE, bodyOf, escapeHtml, LIGHT_SCRIPT, THEME } from './trace/body.js';
export { THIS_CLIENT } from './trace/sentences.js';
export { FrameDescriber, withFields } from './trace/story.js';
