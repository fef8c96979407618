import { checkList, invalidInput, show } from '../../base/index.js';

/** Checks that the value is a list of objects, such as operations or events. */
export function checkRecords<T>(list: readonly T[], argument: string): readonly T[] {
  const records = checkList(list, argument);
  for (const [index, record] of records.entries())
    if (typeof record !== 'object' || record === null)
      throw invalidInput(`${argument}[${index}]`, show(record), 'an object with the fields that the type names');
  return records;
}
