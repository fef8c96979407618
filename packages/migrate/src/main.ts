#!/usr/bin/env node
import { run } from './program.js';

process.exitCode = run(process.argv.slice(2), process.stdout, process.stderr);
