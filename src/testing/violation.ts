/** What a history shows that must not be. A checker that finds nothing gives an empty list. */
export interface Violation<Rule extends string = string> {
  readonly rule: Rule;
  /** Which operation or event, and what is wrong with it. */
  readonly detail: string;
}
