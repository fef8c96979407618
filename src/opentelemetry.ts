/// <reference path="./base/globals.ts" preserve="true" />

/**
 * Records spans and metrics of all calls with OpenTelemetry. The package `@opentelemetry/api` must be installed along
 * with this package.
 *
 * @module etcdwire/opentelemetry
 */
export { type OpenTelemetryOptions, openTelemetry } from './extras/observe/opentelemetry.js';
