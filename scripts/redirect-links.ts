import { dirname, join, relative } from 'node:path/posix';

/** Matches a link or an image in Markdown. The groups are the shown part with its brackets, and the target. */
const LINK = /(!?\[(?:[^[\]]|\[[^[\]]*\])*\])\(([^)\s]+)\)/g;

/** A page of the repository, which is copied to another place. */
interface CopiedPage {
  readonly text: string;
  /** The path of the page in the repository. */
  readonly page: string;
  /** The path of the copy in the package or on the site. */
  readonly place: string;
}

/** Returns the address of the repository if a GitHub workflow runs this program. */
export function repositoryOfWorkflow(): string | undefined {
  const { GITHUB_SERVER_URL: server, GITHUB_REPOSITORY: repository } = process.env;
  return server === undefined || repository === undefined ? undefined : `${server}/${repository}`;
}

/**
 * Returns the text of a copied page, in which each link leads to the copy of its target. `placeOf` returns the place of
 * the copy for a path in the repository, or undefined if there is no copy, for example of a test. Such a link leads to
 * `repository`, the address of the repository's files. If the address is not known, only the text of the link remains.
 */
export function redirectLinks(
  { text, page, place }: CopiedPage,
  placeOf: (path: string) => string | undefined,
  repository: string | undefined,
): string {
  return text.replace(LINK, (link, shown: string, given: string) => {
    if (/^(https?:|#)/.test(given)) return link;
    const [file = '', anchor] = given.split('#');
    const path = join(dirname(page), file);
    const target = placeOf(path);
    const end = anchor === undefined ? '' : `#${anchor}`;
    if (target !== undefined) return `${shown}(${relative(dirname(place), target)}${end})`;
    if (repository === undefined) return shown.replace(/^!?\[|\]$/g, '');
    // GitHub shows a page about a picture at `blob`, and the picture itself at `raw`.
    const address = shown.startsWith('!') ? repository.replace('/blob/', '/raw/') : repository;
    return `${shown}(${address}/${path}${end})`;
  });
}
