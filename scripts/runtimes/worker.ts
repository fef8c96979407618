import { type Conformance, conformance } from './conformance.js';

// The entry point for a worker in workerd. The body of a POST request is a `Conformance` as JSON, and the response
// contains the results of the checks.

// biome-ignore lint/style/noDefaultExport: workerd requires a default export
export default {
  async fetch(request: Request): Promise<Response> {
    if (request.method !== 'POST') return new Response('ready');
    return Response.json(await conformance((await request.json()) as Conformance));
  },
};
