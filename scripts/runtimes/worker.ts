import { type Conformance, conformance } from './conformance.js';

// On a host without processes: what is to be tried comes as the body of a request.

// biome-ignore lint/style/noDefaultExport: what a worker is asked for
export default {
  async fetch(request: Request): Promise<Response> {
    if (request.method !== 'POST') return new Response('ready');
    return Response.json(await conformance((await request.json()) as Conformance));
  },
};
