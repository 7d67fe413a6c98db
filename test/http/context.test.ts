import { describe, expect, test } from "vitest";
import { requestIdOf } from "../../src/http/context.ts";

describe("the request id", () => {
  test.each(["a", "0af7651916cd43dd-8448eb211c80319c", "A.b_c:d/e+f=g@h~i-j", "x".repeat(128)])(
    "is the client's when it is safe: %s",
    (id) => {
      expect(requestIdOf(id)).toBe(id);
    },
  );

  test.each(["", " ", "x".repeat(129), "a b", "a,b", 'a"b', "a\tb", "é", "<script>", "${jndi:x}", undefined])(
    "is a new one otherwise: %j",
    (received) => {
      const id = requestIdOf(received);
      expect(id).toMatch(/^[0-9a-f]{16}-[0-9a-z]+$/);
      expect(requestIdOf(received)).not.toBe(id);
    },
  );

  test("is a new one where the client sends several", () => {
    expect(requestIdOf(["a", "b"])).toMatch(/^[0-9a-f]{16}-/);
  });
});
