import { LOCK_STORIES } from './stories/locks.js';
import { MEMBER_STORIES } from './stories/members.js';
import type { Story } from './stories/stage.js';
import { WATCH_STORIES } from './stories/watches.js';

/** The prepared stories of the playground, in groups. A story fails if one of its checks fails. */
export const STORY_GROUPS: readonly { readonly title: string; readonly stories: readonly Story[] }[] = [
  { title: 'Locks', stories: LOCK_STORIES },
  { title: 'Watches', stories: WATCH_STORIES },
  { title: 'Three members', stories: MEMBER_STORIES },
];

export const STORIES: readonly Story[] = STORY_GROUPS.flatMap(({ stories }) => stories);
