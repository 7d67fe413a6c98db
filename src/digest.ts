import { hash } from "node:crypto";

/** Characters of base64url that distinguish digests though their texts are chosen by others: 132 bits. */
const COLLISION_FREE = 22;

/** A digest that stands for `text`, in characters that need no encoding. */
export function digestOf(text: string, characters = COLLISION_FREE): string {
  return hash("sha256", text, "base64url").slice(0, characters);
}
