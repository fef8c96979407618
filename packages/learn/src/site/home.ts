/** The top of the first page: its title, and cards that lead to the parts of the site. README.md follows. */
export const HOME = {
  layout: 'home',
  hero: {
    name: 'etcdwire',
    text: 'An etcd v3 client for TypeScript',
    tagline: 'It speaks gRPC over its own HTTP/2, and has fair, fenced locks.',
    actions: [
      { text: 'Getting started', link: '/getting-started' },
      { text: 'All pages', link: '/contents', theme: 'alt' },
    ],
  },
  features: [
    {
      title: 'Playground',
      details: 'An etcd and three clients in one page. Ten stories show locks, watches and raft, message by message.',
      link: '/playground.html',
      target: '_self',
    },
    {
      title: 'Course',
      details: 'Build an etcd client from a socket, in ten programs of at most 60 lines.',
      link: '/course/',
    },
    {
      title: 'Example trace',
      details:
        'A command waits for a lock: the queue, all messages, and the meaning of each byte. The command "etcdwire trace" writes such a page.',
      link: '/trace.html',
      target: '_self',
    },
    {
      title: 'Reference',
      details: 'Everything that the package exports, with examples.',
      link: '/reference/',
    },
  ],
};
