/**
 * Text as it is searched: lower case, without accents, in compatibility forms (`ﬁ` is `fi`), words apart by one space.
 * What is no letter and no digit separates words.
 */
export function searchText(text: string): string {
  const isPlain = PLAIN.test(text);
  const lower = (isPlain ? text : text.normalize("NFKD").replaceAll(MARKS, "")).toLowerCase();
  return lower.replaceAll(isPlain ? PLAIN_SEPARATORS : SEPARATORS, " ").trim();
}

// oxlint-disable-next-line no-control-regex -- all of ASCII is what is meant
const PLAIN = /^[\u0000-\u007f]*$/;
const PLAIN_SEPARATORS = /[^a-z0-9]+/g;
const MARKS = /\p{M}+/gu;
const SEPARATORS = /[^\p{L}\p{N}]+/gu;
