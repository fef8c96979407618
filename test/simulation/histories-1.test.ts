import { testHistories } from './test-histories.js';

testHistories(0);
