export { saveSnapshot } from './save-snapshot.js';
