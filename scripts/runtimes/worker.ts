import { type Conformance, conformance } from './conformance.js';

// The entry point for a worker, on a host without processes. The body of the request says what to test.

// biome-ignore lint/style/noDefaultExport: workerd requires a default export
export default {
  async fetch(request: Request): Promise<Response> {
    if (request.method !== 'POST') return new Response('ready');
    return Response.json(await conformance((await request.json()) as Conformance));
  },
};
