/// <reference path="./base/globals.ts" preserve="true" />

/**
 * Service registration and discovery, compatible with Go's `naming/endpoints`.
 *
 * @module etcdwire/discovery
 */
export {
  type PickedEndpoint,
  type Picking,
  type Registration,
  Service,
  type ServiceEndpoint,
  ServiceView,
  type Update,
  type ViewOptions,
} from './extras/recipes/index.js';
