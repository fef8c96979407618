/// <reference lib="esnext.disposable" preserve="true" />

// The global types that the declarations of this package name. Each entry point refers to this file, so that the
// declarations compile in a project whose option `lib` is ES2022 and that has no types of a platform, such as those of
// `@types/node` or `lib.dom.d.ts`. The interfaces have no members, because TypeScript merges them with the types of the
// platform, whose members differ.

declare global {
  interface AbortSignal {}
  interface RequestInit {}
  interface Response {}
}

export {};
