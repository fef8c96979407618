type Scalar = Uint8Array | string | number | bigint | boolean | undefined;

/**
 * What may be given where a message is to be sent: every field is optional and stands for its default when left out.
 * A oneof is given whole: its case and its value.
 */
export type Init<T> = T extends Scalar
  ? T
  : T extends readonly (infer Element)[]
    ? readonly Init<Element>[]
    : T extends { case: infer Case; value: infer Value }
      ? { readonly case: Case; readonly value: Init<Value> }
      : { readonly [Field in keyof T]?: Init<T[Field]> | undefined };
