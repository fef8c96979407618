#!/usr/bin/env node
import * as nodeModule from 'node:module';
import { join } from 'node:path';

// This file is small, because Node.js compiles it before the compile cache is enabled.

const { enableCompileCache } = nodeModule as { readonly enableCompileCache?: (folder: string) => unknown };
const { XDG_CACHE_HOME, HOME } = process.env;
const cache = XDG_CACHE_HOME || (HOME && join(HOME, '.cache'));
// With the cache, a process does not compile the other files again. The cache is in a folder of the user, because in the
// default folder, which is the one for temporary files, other users could replace the compiled code.
if (cache) enableCompileCache?.(join(cache, 'etcdwire', 'compile-cache'));

void import('./start.js');
