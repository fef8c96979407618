/** gRPC status codes by number, https://grpc.github.io/grpc/core/md_doc_statuscodes.html, in Go's spelling. */
export const STATUS_CODES = [
  'OK',
  'Canceled',
  'Unknown',
  'InvalidArgument',
  'DeadlineExceeded',
  'NotFound',
  'AlreadyExists',
  'PermissionDenied',
  'ResourceExhausted',
  'FailedPrecondition',
  'Aborted',
  'OutOfRange',
  'Unimplemented',
  'Internal',
  'Unavailable',
  'DataLoss',
  'Unauthenticated',
] as const;

/** The name of a gRPC status, in Go's spelling. */
export type StatusCode = (typeof STATUS_CODES)[number];

/** A number outside the table counts as `Unknown`, as gRPC asks. */
export function statusCode(number: number): StatusCode {
  return STATUS_CODES[number] ?? 'Unknown';
}
