import { Controller, Get, Inject, Module, type OnApplicationShutdown, Param } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { Client, op } from 'etcdwire';
import { withLock } from 'etcdwire/locks';
import { fromEnv } from 'etcdwire/node';

@Controller()
export class Counters implements OnApplicationShutdown {
  @Inject(Client) private readonly etcd!: Client;

  @Get('next/:name')
  next(@Param('name') name: string): Promise<number> {
    return withLock(this.etcd, `counters/${name}/lock`, { ttl: 5 }, async (held) => {
      const value = Number((await this.etcd.get(`counters/${name}`))?.text() ?? 0) + 1;
      await held.txn({ then: [op.put(`counters/${name}`, String(value))] });
      return value;
    });
  }

  onApplicationShutdown = (): Promise<void> => this.etcd.close(); // when all requests have been answered
}

@Module({ controllers: [Counters], providers: [{ provide: Client, useFactory: () => new Client(fromEnv()) }] })
export class CountersModule {}

export async function main(): Promise<void> {
  await (await NestFactory.create(CountersModule)).enableShutdownHooks().listen(process.env.PORT ?? 0);
}
