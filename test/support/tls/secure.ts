/** The same endpoint, with TLS: what proxies and peers call themselves has none. */
export function secure(endpoint: string): string {
  return endpoint.replace('http:', 'https:');
}
