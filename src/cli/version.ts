/** That of package.json, from which a single file cannot read it. */
export const VERSION = '0.1.0';
