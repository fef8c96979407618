import assert from 'node:assert/strict';
import { type Client, EtcdError, prefix } from '../../../src/index.js';
import { type Context, type ExercisesOf, freshName } from '../exercise.js';

const ROOT = { username: 'root', password: 'matrix-root', allowPlaintext: true } as const;

export const auth: ExercisesOf<'auth'> = {
  authEnable: {
    since: '3.0',
    run: (context) =>
      authenticated(context, async () => {
        await assert.rejects(context.etcd.get('k'), isRefusal);
      }),
  },
  authDisable: {
    since: '3.0',
    run: async (context) => {
      await authenticated(context, async (root) => {
        await root.auth.disable();
        assert.equal(await context.etcd.get(freshName()), undefined);
        await context.etcd.auth.enable();
      });
    },
  },
  authStatus: {
    since: '3.5',
    run: async (context) => {
      const before = await context.etcd.auth.status();
      assert.equal(before.enabled, false);
      await authenticated(context, async (root) => {
        const { enabled, authRevision } = await root.auth.status();
        assert.equal(enabled, true);
        assert.ok(authRevision > before.authRevision);
      });
    },
  },
  authenticate: {
    since: '3.0',
    run: (context) =>
      authenticated(context, async (root) => {
        const token = await root.auth.authenticate(ROOT.username, ROOT.password);
        const withToken = context.open({ endpoints: root.endpoints, auth: { token, allowPlaintext: true } });
        assert.deepEqual((await withToken.auth.userList()).users, ['root']);
        await assert.rejects(
          root.auth.authenticate(ROOT.username, 'wrong'),
          (error) => error instanceof EtcdError && error.reason === 'AuthFailed',
        );
      }),
  },
  userAdd: {
    since: '3.0',
    run: (context) =>
      withUser(context, async (user) => {
        assert.deepEqual((await context.etcd.auth.userGet(user)).roles, []);
      }),
  },
  userGet: {
    since: '3.0',
    run: (context) =>
      withUserAndRole(context, async (user, role) => {
        await context.etcd.auth.userGrantRole(user, role);
        assert.deepEqual((await context.etcd.auth.userGet(user)).roles, [role]);
      }),
  },
  userList: {
    since: '3.0',
    run: (context) =>
      withUser(context, async (user) => {
        assert.ok((await context.etcd.auth.userList()).users.includes(user));
      }),
  },
  userDelete: {
    since: '3.0',
    run: async (context) => {
      const user = await withUser(context, async (name) => name);
      assert.ok(!(await context.etcd.auth.userList()).users.includes(user));
    },
  },
  userChangePassword: {
    since: '3.0',
    run: (context) =>
      withUser(context, async (user) => {
        await context.etcd.auth.userChangePassword(user, 'new');
        await authenticated(context, async (root) => {
          assert.notEqual(await root.auth.authenticate(user, 'new'), '');
          await assert.rejects(root.auth.authenticate(user, 'old'), isRefusal);
        });
      }),
  },
  userGrantRole: {
    since: '3.0',
    run: (context) =>
      withUserAndRole(context, async (user, role) => {
        await context.etcd.auth.userGrantRole(user, role);
        assert.deepEqual((await context.etcd.auth.userGet(user)).roles, [role]);
      }),
  },
  userRevokeRole: {
    since: '3.0',
    run: (context) =>
      withUserAndRole(context, async (user, role) => {
        await context.etcd.auth.userGrantRole(user, role);
        await context.etcd.auth.userRevokeRole(user, role);
        assert.deepEqual((await context.etcd.auth.userGet(user)).roles, []);
      }),
  },
  roleAdd: {
    since: '3.0',
    run: (context) =>
      withRole(context, async (role) => {
        assert.deepEqual((await context.etcd.auth.roleGet(role)).permissions, []);
      }),
  },
  roleGet: {
    since: '3.0',
    run: (context) =>
      withRole(context, async (role) => {
        const key = new Uint8Array([1, 0xff]);
        await context.etcd.auth.roleGrantPermission(role, 'read', key);
        assert.deepEqual((await context.etcd.auth.roleGet(role)).permissions, [{ access: 'read', keys: key }]);
      }),
  },
  roleList: {
    since: '3.0',
    run: (context) =>
      withRole(context, async (role) => {
        assert.ok((await context.etcd.auth.roleList()).roles.includes(role));
      }),
  },
  roleDelete: {
    since: '3.0',
    run: async (context) => {
      const role = await withRole(context, async (name) => name);
      assert.ok(!(await context.etcd.auth.roleList()).roles.includes(role));
    },
  },
  roleGrantPermission: {
    since: '3.0',
    run: (context) =>
      withRole(context, async (role) => {
        await context.etcd.auth.roleGrantPermission(role, 'write', prefix('a'));
        const [granted, ...others] = (await context.etcd.auth.roleGet(role)).permissions;
        assert.equal(granted?.access, 'write');
        assert.deepEqual(others, []);
      }),
  },
  roleRevokePermission: {
    since: '3.0',
    run: (context) =>
      withRole(context, async (role) => {
        await context.etcd.auth.roleGrantPermission(role, 'readwrite', prefix('a'));
        await context.etcd.auth.roleRevokePermission(role, prefix('a'));
        assert.deepEqual((await context.etcd.auth.roleGet(role)).permissions, []);
      }),
  },
};

async function withUser<T>({ etcd }: Context, use: (user: string) => Promise<T>): Promise<T> {
  const user = freshName('user');
  await etcd.auth.userAdd(user, { password: 'old' });
  try {
    return await use(user);
  } finally {
    await etcd.auth.userDelete(user);
  }
}

async function withRole<T>({ etcd }: Context, use: (role: string) => Promise<T>): Promise<T> {
  const role = freshName('role');
  await etcd.auth.roleAdd(role);
  try {
    return await use(role);
  } finally {
    await etcd.auth.roleDelete(role);
  }
}

function withUserAndRole(context: Context, use: (user: string, role: string) => Promise<void>): Promise<void> {
  return withUser(context, (user) => withRole(context, (role) => use(user, role)));
}

/** Enables authentication while `use` runs, and passes `use` a client that authenticates as the user root. */
async function authenticated(context: Context, use: (root: Client) => Promise<void>): Promise<void> {
  const { etcd, open } = context;
  await etcd.auth.userAdd(ROOT.username, { password: ROOT.password });
  await etcd.auth.roleAdd('root');
  await etcd.auth.userGrantRole(ROOT.username, 'root');
  await etcd.auth.enable();
  const root = open({ endpoints: etcd.endpoints, auth: ROOT });
  try {
    await use(root);
  } finally {
    await root.auth.disable();
    await etcd.auth.userDelete(ROOT.username);
    await etcd.auth.roleDelete('root');
  }
}

function isRefusal(error: unknown): boolean {
  return error instanceof EtcdError && error.outcome === 'rejected';
}
