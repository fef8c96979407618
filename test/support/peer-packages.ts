import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { chmodSync, copyFileSync, cpSync, existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { cacheFolder, fillFolder } from '../../src/testing/etcd/cache.js';
import { onPath } from '../../src/testing/etcd/programs.js';

// Packages of other projects, from their registries, for tests in which those projects use a `MemoryEtcd`. The packages
// stay in the cache, in folders whose names depend on the versions, and never in this repository.

/** A folder with installed packages, or the reason why it is missing. */
type Installed = { readonly folder: string } | { readonly missing: string };

/** The maximum time in milliseconds that a program may run. */
const PROGRAM_TIMEOUT_MS = 300_000;
/** The maximum time in milliseconds of a build in which the compiler optimizes all crates. */
const RELEASE_TIMEOUT_MS = 1_800_000;
/** Settings that let a package manager give up soon when its registry is unreachable. */
const IMPATIENT = { PIP_RETRIES: '1', PIP_DEFAULT_TIMEOUT: '15', CARGO_NET_RETRY: '1', CARGO_HTTP_TIMEOUT: '15' };

interface RunOptions {
  readonly cwd?: string;
  readonly environment?: Readonly<Record<string, string>>;
  /** Default: `PROGRAM_TIMEOUT_MS`. */
  readonly timeoutMs?: number;
}

const execute = promisify(execFile);

/**
 * Runs a program without blocking this process, whose event loop serves the calls of the program. Resolves with its
 * output. Rejects if its exit status is not 0; the error has the output, too.
 */
export async function runPeer(program: string, args: readonly string[], options: RunOptions = {}): Promise<string> {
  const { cwd, environment = {}, timeoutMs = PROGRAM_TIMEOUT_MS } = options;
  const env = { ...process.env, ...environment };
  const { stdout } = await execute(program, args, { cwd, env, timeout: timeoutMs, maxBuffer: 2 ** 28 });
  return stdout;
}

/**
 * Installs packages into a folder of the cache, unless the folder exists.
 *
 * @param program The program that installs the packages.
 * @param wanted A text that determines the content of the folder.
 * @param make Installs the packages into a folder inside `work`, and resolves with that folder.
 */
export async function install(
  program: string,
  name: string,
  wanted: string,
  make: (work: string) => Promise<string>,
): Promise<Installed> {
  if (onPath(program) === undefined) return { missing: `${program} is not on the PATH` };
  const hash = createHash('sha256').update(wanted).digest('hex').slice(0, 16);
  const folder = cacheFolder('peers', `${name}-${hash}`);
  const isComplete = (): boolean => existsSync(folder);
  try {
    if (!isComplete()) await fillFolder(folder, isComplete, make);
    return { folder };
  } catch (error) {
    const { stderr, message } = error as Error & { readonly stderr?: string };
    const last = (stderr || message).trim().split('\n').slice(-2).join(' | ');
    return { missing: `${program} could not install ${name}: ${last}` };
  }
}

/** Installs Python packages from PyPI into one folder, for the variable PYTHONPATH. */
export async function pythonPackages(name: string, packages: readonly string[]): Promise<Installed> {
  return install('python3', name, `${packages.join()} ${await pythonVersion()}`, (work) => pipInstall(work, packages));
}

/** The Python client etcd3 with everything that its own tests need. */
const PYTHON_TESTS = ['etcd3==0.12.0', 'protobuf==3.20.3', 'pytest==7.4.4', 'hypothesis==6.98.0', 'mock==5.1.0'];

/**
 * Installs the Python client etcd3 and its tests, which only its source package contains. The folder contains the tests
 * in `source/tests`.
 */
export async function pythonTests(): Promise<Installed> {
  return install('python3', 'etcd3-tests', `${PYTHON_TESTS.join()} ${await pythonVersion()}`, async (work) => {
    const folder = await pipInstall(work, PYTHON_TESTS);
    const args = [
      '-m',
      'pip',
      'download',
      '--quiet',
      '--disable-pip-version-check',
      '--no-deps',
      '--no-binary',
      ':all:',
    ];
    await runPeer('python3', [...args, '--dest', work, 'etcd3==0.12.0'], { environment: IMPATIENT });
    await runPeer('python3', ['-m', 'tarfile', '-e', join(work, 'etcd3-0.12.0.tar.gz'), work]);
    cpSync(join(work, 'etcd3-0.12.0/tests'), join(folder, 'source/tests'), { recursive: true });
    return folder;
  });
}

/** Resolves with the version of Python, because packages with compiled code fit only one version. */
async function pythonVersion(): Promise<string> {
  return onPath('python3') === undefined ? '' : await runPeer('python3', ['--version']);
}

async function pipInstall(work: string, packages: readonly string[]): Promise<string> {
  const target = join(work, 'packages');
  const args = ['-m', 'pip', 'install', '--quiet', '--disable-pip-version-check', '--target', target, ...packages];
  await runPeer('python3', args, { environment: IMPATIENT });
  return target;
}

/** The crates that the tests of etcd-client need. The second one contains the compiler of .proto files. */
const CRATES = { 'etcd-client': '0.16.1', 'protoc-bin-vendored': '3.2.0' } as const;
const RUST_TESTS = ['client', 'namespace'] as const;
/** The expression that replaces the fixed endpoint in the tests of etcd-client. */
const ENDPOINT = 'Box::leak(std::env::var("ETCD_TEST_ENDPOINT").unwrap().into_boxed_str())';

/**
 * Builds the tests of the Rust crate etcd-client, which its package contains. The tests use the fixed port 2379; the
 * copy in the cache uses the endpoint in ETCD_TEST_ENDPOINT. The folder contains one program for each file of tests.
 */
export function rustTests(): Promise<Installed> {
  return install('cargo', 'etcd-client', JSON.stringify([CRATES, RUST_TESTS, ENDPOINT]), buildRustTests);
}

async function buildRustTests(work: string): Promise<string> {
  const dependencies = Object.entries(CRATES).map(([crate, version]) => `${crate} = "=${version}"`);
  const manifest = ['[package]', 'name = "peer"', 'version = "0.0.0"', 'edition = "2021"', '[dependencies]'];
  mkdirSync(join(work, 'peer/src'), { recursive: true });
  writeFileSync(join(work, 'peer/src/lib.rs'), '');
  writeFileSync(join(work, 'peer/Cargo.toml'), [...manifest, ...dependencies, ''].join('\n'));
  const packages = await cratesOf(join(work, 'peer'));
  const crate = join(work, 'etcd-client');
  cpSync(sourceOf('etcd-client', packages), crate, { recursive: true });
  for (const file of ['tests/client.rs', 'tests/testing.rs']) useEndpointVariable(join(crate, file));
  const tests = RUST_TESTS.flatMap((name) => ['--test', name]);
  const built = await runCargo(['test', '--no-run', '--locked', '--message-format', 'json', ...tests], crate, {
    ...protocIn(packages, work),
    CARGO_TARGET_DIR: join(work, 'target'),
    CARGO_PROFILE_DEV_DEBUG: '0',
  });
  const programs = join(work, 'programs');
  mkdirSync(programs);
  for (const line of built.trim().split('\n')) {
    const { executable, target } = JSON.parse(line) as {
      readonly executable?: string | null;
      readonly target?: { readonly name: string; readonly kind: readonly string[] };
    };
    if (executable && target?.kind.includes('test')) copyFileSync(executable, join(programs, target.name));
  }
  return programs;
}

/** A crate in the output of `cargo metadata`. */
interface Crate {
  readonly name: string;
  readonly manifest_path: string;
}

/** Downloads the crates that the Rust package in a folder needs. */
export async function cratesOf(folder: string): Promise<readonly Crate[]> {
  const described = await runCargo(['metadata', '--format-version', '1', '--quiet'], folder);
  return (JSON.parse(described) as { readonly packages: readonly Crate[] }).packages;
}

function sourceOf(name: string, crates: readonly Crate[]): string {
  const found = crates.find((each) => each.name === name);
  if (found === undefined) throw new Error(`cargo found no crate ${name}`);
  return dirname(found.manifest_path);
}

/**
 * Copies the compiler of .proto files from the crate protoc-bin-vendored into the folder `work`, and returns the
 * environment variables with which builds find the compiler. The crate has one dependency for each system.
 */
export function protocIn(crates: readonly Crate[], work: string): Readonly<Record<string, string>> {
  const system = process.platform === 'darwin' ? 'macos' : process.platform;
  const machine = process.arch === 'arm64' ? 'aarch_64' : 'x86_64';
  const protoc = join(work, 'protoc');
  const source = sourceOf(`protoc-bin-vendored-${system}-${machine}`, crates);
  copyFileSync(join(source, 'bin/protoc'), protoc);
  chmodSync(protoc, 0o755);
  return { PROTOC: protoc, PROTOC_INCLUDE: join(source, 'include') };
}

export function runCargo(
  args: readonly string[],
  cwd: string,
  environment: Readonly<Record<string, string>> = {},
): Promise<string> {
  const timeoutMs = args.includes('--release') ? RELEASE_TIMEOUT_MS : PROGRAM_TIMEOUT_MS;
  return runPeer('cargo', args, { cwd, environment: { ...IMPATIENT, ...environment }, timeoutMs });
}

/** Replaces the fixed endpoint in a file of tests. */
function useEndpointVariable(file: string): void {
  const source = readFileSync(file, 'utf8');
  const patched = source
    .replace(/pub const DEFAULT_TEST_ENDPOINT: &str = .*;/, `pub fn endpoint() -> &'static str { ${ENDPOINT} }`)
    .replace(/^(use .*)DEFAULT_TEST_ENDPOINT/m, '$1endpoint')
    .replaceAll('DEFAULT_TEST_ENDPOINT', 'endpoint()')
    .replaceAll('"localhost:2379"', 'endpoint()');
  writeFileSync(file, patched);
}

/** Installs packages of npm with exact versions into a folder `node_modules` of the cache. */
export function installNpm(name: string, packages: readonly string[]): Promise<Installed> {
  return install('npm', name, packages.join(), async (work) => {
    await execute('npm', ['install', '--no-audit', '--no-fund', '--ignore-scripts', '--prefix', work, ...packages]);
    return join(work, 'node_modules');
  });
}
