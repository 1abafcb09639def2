/** The details of a status (`google.rpc.Status`), as far as a client acts on them. @module */

import { fromBinary } from "@bufbuild/protobuf";
import { BinaryReader, WireType } from "@bufbuild/protobuf/wire";
import { AnySchema, DurationSchema, durationMs } from "@bufbuild/protobuf/wkt";

const RETRY_INFO = "/google.rpc.RetryInfo";
/** Numbers of the fields `Status.details` and `RetryInfo.retry_delay`. */
const STATUS_DETAILS = 3;
const RETRY_DELAY = 1;

/**
 * After how many milliseconds the call may be worth another try: the delay of a `RetryInfo` in these details, 0 where
 * it names none. `undefined`: there is no such thing, or the details cannot be read.
 */
export function retryDelayMs(details: Uint8Array): number | undefined {
  try {
    for (const bytes of fieldsOf(details, STATUS_DETAILS)) {
      const any = fromBinary(AnySchema, bytes);
      if (any.typeUrl.endsWith(RETRY_INFO)) {
        const [delay] = fieldsOf(any.value, RETRY_DELAY);
        return delay === undefined ? 0 : Math.max(0, durationMs(fromBinary(DurationSchema, delay)));
      }
    }
  } catch {
    // Whoever sends what cannot be read has not said that the call was shed.
  }
  return undefined;
}

/** The bytes of every field with this number. */
function fieldsOf(message: Uint8Array, number: number): Uint8Array[] {
  const fields: Uint8Array[] = [];
  const reader = new BinaryReader(message);
  while (reader.pos < reader.len) {
    const [field, wireType] = reader.tag();
    if (field === number && wireType === WireType.LengthDelimited) {
      fields.push(reader.bytes());
    } else {
      reader.skip(wireType, field);
    }
  }
  return fields;
}
