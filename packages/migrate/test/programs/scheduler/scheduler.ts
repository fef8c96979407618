import { type Campaign, type Election, Etcd3, type Lease, type Lock, type Watcher } from 'etcd3';

export interface Job {
  readonly name: string;
  readonly everyMs: number;
  run(): Promise<string>;
}

interface Config {
  readonly paused: boolean;
  readonly maxJobs: number;
}

/** Runs jobs on the instance that leads, with settings that it reads from etcd. */
export class Scheduler {
  private client?: Etcd3;
  private election?: Election;
  private campaign?: Campaign;
  private lease: Lease | null = null;
  private configWatcher?: Watcher;
  private config: Config = { paused: false, maxJobs: 10 };
  private isLeader = false;
  private readonly timers: NodeJS.Timeout[] = [];

  constructor(
    private readonly id: string,
    private readonly hosts: string[],
    private readonly jobs: readonly Job[],
  ) {}

  async start(): Promise<void> {
    this.client = new Etcd3({ hosts: this.hosts });
    await this.announce(this.client);
    await this.watchConfig();
    this.election = this.client.election('scheduler', 10);
    this.elect();
    for (const job of this.jobs) this.timers.push(setInterval(() => void this.runJob(job), job.everyMs));
  }

  private async announce(client: Etcd3): Promise<void> {
    this.lease = client.lease(15);
    this.lease.on('lost', (error) => {
      console.error('lost the lease', error.message);
      void this.announce(client);
    });
    await this.lease.put(`scheduler/instances/${this.id}`).value(JSON.stringify({ id: this.id, pid: process.pid }));
  }

  private elect(): void {
    this.campaign = this.election?.campaign(this.id);
    this.campaign?.on('elected', () => {
      this.isLeader = true;
      void this.client?.put('scheduler/leader-since').value(Date.now()).exec();
    });
    this.campaign?.on('error', (error) => {
      this.isLeader = false;
      console.error('the campaign failed', error.message);
      setTimeout(() => this.elect(), 1_000);
    });
  }

  private async watchConfig(): Promise<void> {
    const stored = await this.client?.get('scheduler/config').json();
    if (stored) this.config = stored as Config;
    this.configWatcher = await this.client?.watch().key('scheduler/config').create();
    this.configWatcher
      ?.on('put', (kv) => {
        this.config = JSON.parse(kv.value.toString());
      })
      .on('delete', () => {
        this.config = { paused: false, maxJobs: 10 };
      });
  }

  async runJob(job: Job): Promise<string | undefined> {
    if (!this.isLeader || this.config.paused || !this.client) return undefined;
    const lock: Lock = this.client.lock(`scheduler/locks/${job.name}`).ttl(30);
    try {
      await lock.acquire();
    } catch {
      return undefined;
    }
    try {
      const result = await job.run();
      await this.record(job, result);
      return result;
    } finally {
      await lock.release();
    }
  }

  private async record({ name }: Job, result: string): Promise<void> {
    const { client } = this;
    if (client === undefined) return;
    const runs = (await client.get(`scheduler/runs/${name}`).number()) ?? 0;
    await client
      .if(`scheduler/runs/${name}`, 'Value', '==', String(runs))
      .then(client.put(`scheduler/runs/${name}`).value(runs + 1), client.put(`scheduler/last/${name}`).value(result))
      .else(client.put(`scheduler/runs/${name}`).value(1), client.put(`scheduler/last/${name}`).value(result))
      .commit();
    const kept = client.lease(3_600, { autoKeepAlive: false });
    await kept.put(`scheduler/history/${name}/${Date.now()}`).value(result);
  }

  async statistics(): Promise<Readonly<Record<string, number>>> {
    const runs = (await this.client?.getAll().prefix('scheduler/runs/').numbers()) ?? {};
    const instances = await this.client?.getAll().prefix('scheduler/instances/').count();
    return { ...runs, instances: instances ?? 0 };
  }

  async leader(): Promise<string | undefined> {
    return this.election?.leader();
  }

  async stop(): Promise<void> {
    for (const timer of this.timers) clearInterval(timer);
    await this.configWatcher?.cancel();
    await this.campaign?.resign();
    await this.lease?.revoke();
    this.client?.close();
  }
}
