import { conformance } from './conformance.js';

// On a host without processes: the arguments are those of the request's URL.

// biome-ignore lint/style/noDefaultExport: what a worker is asked for
export default {
  async fetch(request: Request): Promise<Response> {
    const { searchParams } = new URL(request.url);
    if (searchParams.size === 0) return new Response('ready');
    const [endpoint = '', name = '', lock = ''] = ['endpoint', 'name', 'lock'].map(
      (key) => searchParams.get(key) ?? '',
    );
    return Response.json(await conformance(endpoint, name, lock));
  },
};
