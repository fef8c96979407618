import type { Command } from 'commander';
import {
  backoffMs,
  type Client,
  checkKey,
  concatBytes,
  EtcdError,
  endpointsIn,
  escapeControls,
  eventLoopTurn,
  keysOf,
  prefix as keysWithPrefix,
  type MirrorMessage,
  NO_BYTES,
  onAbort,
  overlaps,
  pause,
  randomId,
  toBytes,
  type WireRange,
} from '../../../../src/internal.js';
import { ANY_REQUEST_BYTES, flag, opsPerTxn } from '../arguments.js';
import { type Context, contextOf, endpointLogger, withClient } from '../context.js';
import {
  type Change,
  MirrorTarget,
  PendingChanges,
  type Position,
  PositionMoved,
  Renaming,
} from '../copy/mirror-target.js';
import { RangeCopy } from '../copy/range-copy.js';
import { StoredKeys } from '../copy/stored-keys.js';
import { CliError, describeFailure, ExitCode, wrongArguments } from '../exit-code.js';
import { type Io, interruptedBy } from '../io.js';
import { keysText, Progress } from '../progress.js';
import { addRangeFlags, rangeOf } from './key-flags.js';

interface MirrorFlags {
  readonly prefix?: boolean;
  readonly fromKey?: boolean;
  readonly to: string;
  /** The prefix that replaces the prefix <key>; false to remove <key>. Undefined if the keys keep their names. */
  readonly destPrefix?: string | false;
  readonly destCacert?: string;
  readonly destCert?: string;
  readonly destKey?: string;
  readonly destUser?: string;
  readonly destPassword?: string;
  readonly positionKey?: string;
  readonly overwrite?: boolean;
  readonly resync?: boolean;
  readonly maxTxnOps: number;
}

/** Prefix of the default position key, which stores how far the mirror is: see `Position`. */
const POSITIONS = 'etcdwire/mirror/';

export function addMirrorCommand(program: Command, io: Io): void {
  addRangeFlags(program.command('mirror').argument('<key>').argument('[range-end]'))
    .description('make keys of another cluster equal to the keys of this cluster, and keep them equal')
    .requiredOption('--to <urls>', 'members of the other cluster, separated by commas')
    .option('--dest-prefix <prefix>', 'with --prefix: replace <key> at the start of each key by this prefix')
    .option('--no-dest-prefix', 'with --prefix: remove <key> from the start of each key')
    .option('--overwrite', 'at the first start, overwrite or delete the keys that the destination has')
    .option('--resync', 'compare all keys again instead of continuing')
    .option(
      '--position-key <key>',
      `key of the other cluster in which the mirror stores its position; default: ${POSITIONS}, followed by the destination`,
    )
    .addOption(flag('--dest-cacert <file>', 'authorities of the other cluster, PEM'))
    .addOption(flag('--dest-cert <file>', 'client certificate for the other cluster, PEM'))
    .addOption(flag('--dest-key <file>', 'private key of --dest-cert, PEM'))
    .addOption(flag('--dest-user <name[:password]>', 'user name in the other cluster'))
    .addOption(flag('--dest-password <password>', 'password of --dest-user'))
    .addOption(opsPerTxn())
    .addHelpText(
      'after',
      `
The mirror runs until it is interrupted. If it is started again, it continues with the changes that it has missed. It
deletes keys of the destination that the source does not have. Keys get no leases: the mirror deletes a key when its
lease ends at the source. If another mirror takes over the destination, the exit code is ${ExitCode.LOST}.`,
    )
    .action(async (key: string, end: string | undefined, flags: MirrorFlags, command: Command) => {
      const context = contextOf(io, command);
      const range = rangeOf(key, end, flags);
      const { to, destCacert, destCert, destKey, destUser, destPassword } = flags;
      const cluster = {
        ...{ endpoints: endpointsIn(to), user: destUser, password: destPassword },
        ...{ cacert: destCacert, cert: destCert, key: destKey },
      };
      await mirror({
        source: context,
        target: context.atCluster(cluster, '--dest-user'),
        range,
        renaming: renamingOf(key, range, flags),
        flags,
      });
    });
}

/** Returns how keys are named at the destination. @throws CliError if --dest-prefix is given without --prefix. */
function renamingOf(key: string, range: WireRange, { prefix, destPrefix, positionKey }: MirrorFlags): Renaming {
  if (destPrefix !== undefined && !prefix)
    throw wrongArguments('--dest-prefix: got it without --prefix; allowed: only with --prefix');
  const from = destPrefix === undefined ? NO_BYTES : toBytes(key, 'key');
  const to = toBytes(destPrefix || '', '--dest-prefix');
  const destination = destPrefix === undefined ? range : keysWithPrefix(to);
  const position =
    positionKey === undefined
      ? concatBytes(toBytes(POSITIONS, 'key'), destPrefix === undefined ? toBytes(key, 'key') : to)
      : checkKey(positionKey, '--position-key');
  return new Renaming(destination, from, to, position);
}

interface Job {
  readonly source: Context;
  readonly target: Context;
  readonly range: WireRange;
  readonly renaming: Renaming;
  readonly flags: MirrorFlags;
}

/**
 * Mirrors until the program is interrupted. After a failure that may pass, starts again at the position of the mirror
 * (see `Position`), as if the user had started the program again.
 */
async function mirror(job: Job): Promise<void> {
  const { io } = job.source;
  const progress = new Progress(io);
  // A random name distinguishes this run from all other mirrors.
  const run = randomId().toString(16);
  let [hasWorked, hasClaimed] = [false, false];
  let reported = '';
  try {
    for (let failures = 0; ; failures += 1) {
      const follower = new Follower(job, progress, run, hasClaimed);
      try {
        return await follower.run();
      } catch (error) {
        hasWorked ||= follower.hasWorked;
        hasClaimed = follower.hasClaimed;
        if (!hasWorked || io.interrupted.aborted || !mayPass(error)) throw error;
        if (follower.hasWorked) failures = 0;
        const { message } = error as Error;
        if (message !== reported)
          progress.stderr.write(`etcdwire: the mirror starts again at its position: ${escapeControls(message)}\n`);
        reported = message;
      }
      await pause(backoffMs(failures), io.interrupted);
      if (io.interrupted.aborted) throw interruptedBy(io);
    }
  } finally {
    progress.erase();
  }
}

const PASSING_CODES: ReadonlySet<string> = new Set(['Unavailable', 'DeadlineExceeded', 'Aborted']);
const PASSING_REASONS: ReadonlySet<string> = new Set(['ClusterChanged', 'Compacted', 'RequestTooManyRequests']);

/** Whether the mirror can continue at its position after this error. */
function mayPass(error: unknown): boolean {
  if (error instanceof PositionMoved) return true;
  return error instanceof EtcdError && (PASSING_CODES.has(error.code) || PASSING_REASONS.has(error.reason));
}

/** Mirrors with one client for each cluster, until a failure ends the mirror. */
class Follower {
  readonly #job: Job;
  readonly #progress: Progress;
  readonly #run: string;
  /** Whether both clusters have answered. */
  hasWorked = false;
  /** Whether this process has taken over the position. If so, it continues only while no other mirror takes it over. */
  hasClaimed: boolean;

  constructor(job: Job, progress: Progress, run: string, hasClaimed: boolean) {
    this.#job = job;
    this.#progress = progress;
    this.#run = run;
    this.hasClaimed = hasClaimed;
  }

  run(): Promise<void> {
    const { source, target, flags } = this.#job;
    const logger = endpointLogger(this.#progress);
    const { maxTxnOps } = flags;
    const withBoth = (from: Client): Promise<void> =>
      withClient(target, (to) => this.#mirror(from, to), logger, { maxTxnOps, maxRequestBytes: ANY_REQUEST_BYTES });
    return withClient(source, withBoth, logger);
  }

  async #mirror(from: Client, to: Client): Promise<void> {
    const { source, range, renaming, flags } = this.#job;
    const { call } = source;
    const { clusterId } = (await from.range(keysOf(range), { ...call, limit: 1, keysOnly: true })).header;
    const { positionKey, destination } = renaming;
    const { maxTxnOps } = flags;
    const targetId = await this.#idOfTarget(to);
    this.hasWorked = true;
    const target = new MirrorTarget(
      { client: to, positionKey, source: range, destination, maxTxnOps, call },
      this.#run,
    );
    await target.claim({
      ownOnly: this.hasClaimed,
      startsAnew: (flags.resync ?? false) && !this.hasClaimed,
      checkNew: () => this.#checkDestination(to),
    });
    if (!this.hasClaimed && clusterId === targetId) await this.#checkApart(from, target);
    this.hasClaimed = true;
    const { revision } = target.position;
    if (revision > 0n) this.#report({ state: 'continuing', revision: String(revision) });
    else this.#report({ state: 'reading' });
    // End the mirror with a signal, because the method `return` of its iterator would wait for the next message.
    const stop = new AbortController();
    const offAbort = onAbort(source.io.interrupted, () => stop.abort(source.io.interrupted.reason));
    const { position } = target;
    const options = { fromRevision: position.revision, clusterId: position.clusterId, signal: stop.signal };
    const messages = from.mirror(keysOf(range), options)[Symbol.asyncIterator]();
    const copy = (): RangeCopy =>
      new RangeCopy(target, renaming, maxTxnOps, new StoredKeys(to.scan(keysOf(destination), call)));
    try {
      await this.#follow(messages, target, clusterId, copy);
    } finally {
      offAbort();
      stop.abort();
    }
  }

  async #follow(
    messages: AsyncIterator<MirrorMessage>,
    target: MirrorTarget,
    clusterId: bigint,
    copy: () => RangeCopy,
  ): Promise<void> {
    const { renaming, flags } = this.#job;
    const pending = new PendingChanges();
    const completeAt = (revision: bigint): Position => ({ revision, state: 'complete', clusterId });
    const applyPending = async (): Promise<void> => {
      const { all, revision } = pending;
      pending.clear();
      await this.#apply(target, all, completeAt(revision));
    };
    let reading: RangeCopy | undefined;
    let isFirst = true;
    let next = nextOf(messages);
    for (;;) {
      // Collect for one transaction all changes that have already arrived. If no further message has arrived, start the
      // transaction.
      const result = await (pending.isEmpty ? next : Promise.race([next, eventLoopTurn()]));
      if (result === undefined) {
        await applyPending();
        continue;
      }
      if (result.done) return;
      next = nextOf(messages);
      const message = result.value;
      switch (message.type) {
        case 'resync':
          // If the source is replaced by another cluster, the mirror needs a new client. The first message is
          // different: it says that the stored position belongs to another cluster, and this client is already new.
          if (message.cause.reason === 'ClusterChanged' && !isFirst) throw message.cause;
          pending.clear();
          await reading?.close();
          reading = undefined;
          this.#report({ state: 'reading', cause: message.cause.message });
          // Remove the revision from the position. The source may reach this revision again with other data.
          await target.apply([], { revision: 0n, state: 'reading', clusterId });
          break;
        case 'keys':
          reading ??= copy();
          await reading.take(message.kvs, clusterId);
          break;
        case 'synced':
          reading ??= copy();
          await this.#apply(target, await reading.rest(clusterId), completeAt(message.revision));
          reading = undefined;
          this.#report({ state: 'complete', revision: String(message.revision) });
          break;
        case 'events': {
          const changes = message.events.flatMap((event): Change[] => {
            const key = renaming.keyOf(event.keyBytes);
            return key === undefined ? [] : [{ key, value: event.type === 'put' ? event.kv.value : undefined }];
          });
          if (changes.length === 0) break;
          if (!pending.isEmpty && !pending.hasRoomFor(changes, flags.maxTxnOps)) await applyPending();
          pending.add(changes, message.revision);
        }
      }
      isFirst = false;
      this.#showProgress(target);
    }
  }

  async #apply(target: MirrorTarget, changes: readonly Change[], position: Position): Promise<void> {
    await target.apply(changes, position);
    this.#showProgress(target);
  }

  #showProgress({ position, counts }: MirrorTarget): void {
    const { written, deleted } = counts;
    const at = position.state === 'reading' ? 'reading' : `at revision ${position.revision}`;
    this.#progress.show(() => `mirror ${at}: wrote ${keysText(written)}, deleted ${keysText(deleted)}`);
  }

  #report(state: { readonly state: string; readonly revision?: string; readonly cause?: string }): void {
    const { out } = this.#job.source;
    this.#progress.erase();
    if (out.format === 'json') return out.json({ ...state });
    const revision = state.revision === undefined ? '' : ` revision ${state.revision}`;
    const text = {
      continuing: `continuing after${revision}`,
      reading: `comparing all keys${state.cause === undefined ? '' : `: ${escapeControls(state.cause)}`}`,
      complete: `the destination equals the source at${revision}`,
    };
    out.line(text[state.state as keyof typeof text]);
  }

  /** @throws CliError if the destination has keys before the first start, and the user has not given --overwrite. */
  async #checkDestination(to: Client): Promise<void> {
    const { renaming, flags, source } = this.#job;
    if (flags.overwrite) return;
    const { count: all } = await to.range(keysOf(renaming.destination), { ...source.call, countOnly: true });
    if (all === 0) return;
    throw new CliError(
      ExitCode.FAILED,
      `the destination has ${keysText(all)}, and no mirror to it has started before; give --overwrite to make it ` +
        'equal to the source, which deletes all other keys of the destination',
    );
  }

  /** Returns the ID of the other cluster. @throws CliError if that cluster does not answer at the first start. */
  async #idOfTarget(to: Client): Promise<bigint> {
    const { renaming, source } = this.#job;
    try {
      return (await to.range(renaming.positionKey, { ...source.call, countOnly: true })).header.clusterId;
    } catch (error) {
      if (this.hasClaimed || !(error instanceof EtcdError) || error.reason === 'Canceled') throw error;
      throw new CliError(describeFailure(error).exitCode, `the cluster of --to: ${error.message}`);
    }
  }

  /**
   * Checks that two clusters with the same ID are different clusters, or that the destination does not overlap the
   * source. Different clusters may have the same ID, but only one contains the position that this process has written.
   *
   * @throws CliError if the destination overlaps the source in the same cluster, because each write would cause another
   * write.
   */
  async #checkApart(from: Client, target: MirrorTarget): Promise<void> {
    const { range, renaming } = this.#job;
    if (!overlaps(range, renaming.destination) || !(await target.isSameCluster(from))) return;
    await target.abandon();
    throw wrongArguments(
      '--to: got the cluster of --endpoints; allowed: another cluster, or a destination apart from the source',
    );
  }
}

/**
 * Requests the next message. The mirror reads ahead, so after a failed write no code awaits this promise. The empty
 * `catch` keeps its rejection from ending the process.
 */
function nextOf(messages: AsyncIterator<MirrorMessage>): Promise<IteratorResult<MirrorMessage>> {
  const next = messages.next();
  next.catch(() => {});
  return next;
}
