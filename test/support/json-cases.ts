/**
 * JSON texts as hostile registries and clients send them, in the manner of the public suites of parser tests: what every
 * parser takes, what none may take, and what RFC 8259 leaves open. Names are those of the suites' files.
 */
export interface JsonCase {
  readonly name: string;
  /** Undefined: RFC 8259 leaves it open. */
  readonly isJson: boolean | undefined;
  readonly bytes: Buffer;
}

type Table = Readonly<Record<string, string | readonly number[]>>;

const DEEP = 20_000;

const VALID: Table = {
  y_array_arraysWithSpaces: "[[]   ]",
  y_array_heterogeneous: '[null, 1, "1", {}]',
  y_array_deep: `${"[".repeat(DEEP)}${"]".repeat(DEEP)}`,
  y_number: "[123e65]",
  y_number_double_close_to_zero: "[-0.000000000000000000000000000000000000000000000000000000000000000000000000000001]",
  y_number_minus_zero: "[-0]",
  y_number_real_capital_e_pos_exp: "[1E+2]",
  y_object_duplicated_key: '{"a":"b","a":"c"}',
  y_object_duplicated_escaped_key: '{"a":"b","\\u0061":"c"}',
  y_object_empty_key: '{"":0}',
  y_object_escaped_null_in_key: '{"foo\\u0000bar": 42}',
  y_object_deep: `${'{"a":'.repeat(DEEP)}1${"}".repeat(DEEP)}`,
  y_object_constructor_key: '{"constructor":{"prototype":{"x":1}},"toString":1,"hasOwnProperty":2,"valueOf":null}',
  y_object_many_keys: `{${Array.from({ length: 5_000 }, (_none, i) => `"k${i}":${i}`).join()}}`,
  y_structure_many_small_objects: `[${"{},".repeat(5_000)}"\\u0061"]`,
  y_string_accepted_surrogate_pairs: '["\\ud83d\\ude39\\ud83d\\udc8d"]',
  y_string_allowed_escapes: '["\\"\\\\\\/\\b\\f\\n\\r\\t"]',
  y_string_null_escape: '["\\u0000"]',
  y_string_utf8: '["€𝄞"]',
  y_string_backslashes: `["${"\\\\".repeat(20_000)}"]`,
  y_string_escaped_quotes: `["${'\\"'.repeat(20_000)}"]`,
  y_structure_lonely_int: "42",
  y_structure_lonely_null: "null",
  y_structure_lonely_string: '"asd"',
  y_structure_whitespace_object: " \r\n\t{ }\t\n",
};

const INVALID: Table = {
  n_array_1_true_without_comma: "[1 true]",
  n_array_extra_close: '["x"]]',
  n_array_extra_comma: '["",]',
  n_array_incomplete: '["x"',
  n_array_invalid_utf8: [0x5b, 0xff, 0x5d],
  n_incomplete_true: "[tru]",
  "n_number_-01": "[-01]",
  "n_number_2.e3": "[2.e3]",
  n_number_Infinity: "[Infinity]",
  n_number_NaN: "[NaN]",
  n_number_hex_2_digits: "[0x42]",
  n_number_with_leading_zero: "[012]",
  n_object_bad_value: '["x", truth]',
  n_object_garbage_at_end: '{"a":"a" 123}',
  n_object_missing_colon: '{"a" b}',
  n_object_single_quote: "{'a':0}",
  n_object_trailing_comma: '{"id":0,}',
  n_object_trailing_comment: '{"a":"b"}/**/',
  n_object_unquoted_key: '{a: "b"}',
  "n_object_unterminated-value": '{"a":"a',
  n_object_with_trailing_garbage: '{"a":"b"}#',
  n_single_space: " ",
  n_string_escape_x: '["\\x00"]',
  n_string_incomplete_surrogate: '["\\uD834\\uDd"]',
  n_string_invalid_utf8_after_escape: [0x5b, 0x22, 0x5c, 0xe5, 0x22, 0x5d],
  n_string_unescaped_ctrl_char: '["a\u0000a"]',
  n_string_unescaped_newline: '["new\nline"]',
  n_structure_20000_opening_arrays: "[".repeat(DEEP),
  n_structure_UTF8_BOM_no_data: [0xef, 0xbb, 0xbf],
  n_structure_angle_bracket: "<.>",
  n_structure_array_trailing_garbage: "[1]x",
  n_structure_double_array: "[][]",
  n_structure_html: "<!doctype html><html><body>no</body></html>",
  n_structure_incomplete_UTF8_BOM: [0xef, 0xbb, 0x7b, 0x7d],
  n_structure_lone_invalid_utf_8: [0xe5],
  n_structure_null_byte: "\u0000",
  n_structure_object_with_comment: '{"a":/*comment*/"b"}',
  n_structure_open_array_object: '[{"":'.repeat(DEEP / 10),
  n_structure_open_object_open_string: '{"a',
  n_structure_single_star: "*",
  n_structure_two_documents: '{"a":1}\n{"a":2}',
  n_structure_unclosed_object: '{"asd":"asd"',
  n_structure_zip: [0x50, 0x4b, 0x03, 0x04, 0x14, 0x00],
};

const OPEN: Table = {
  i_number_huge_exp: `[0.4e${"0".repeat(60)}9999999999]`,
  i_number_neg_int_huge_exp: "[-1e+9999]",
  i_number_too_big_pos_int: "[100000000000000000000]",
  i_number_very_big_negative_int: `[-${"2".repeat(2_000)}]`,
  i_object_key_lone_2nd_surrogate: '{"\\uDFAA":0}',
  "i_string_UTF-16LE_with_BOM": [0xff, 0xfe, 0x5b, 0x00, 0x22, 0x00, 0x22, 0x00, 0x5d, 0x00],
  "i_string_UTF-8_invalid_sequence": [0x5b, 0x22, 0xe6, 0x97, 0xa5, 0xd1, 0x88, 0xfa, 0x22, 0x5d],
  i_string_invalid_lonely_surrogate: '["\\ud800"]',
  i_string_overlong_sequence_2_bytes: [0x5b, 0x22, 0xc0, 0xaf, 0x22, 0x5d],
  i_string_utf16BE_no_BOM: [0x00, 0x5b, 0x00, 0x22, 0x00, 0xe9, 0x00, 0x22, 0x00, 0x5d],
  "i_structure_UTF-8_BOM_empty_object": [0xef, 0xbb, 0xbf, 0x7b, 0x7d],
  "i_structure_UTF-8_BOM_page": [0xef, 0xbb, 0xbf, ...Buffer.from('{"instruments":[]}')],
  i_object_proto_key: '{"__proto__":{"x":1}}',
  i_object_escaped_proto_key: '{"\\u005f_proto__":{"adminId":"x","instruments":[]},"instruments":null}',
};

const INSTRUMENT = '"name":"N","symbol":"S","decimals":10,"supportedApis":{}';

/** Sound JSON that is no answer, or no request, of this API, or an odd one. */
const OF_THE_API: Table = {
  api_page_null_list: '{"instruments":null}',
  api_page_null_instrument: '{"instruments":[null]}',
  api_page_number_instrument: '{"instruments":[5]}',
  api_page_list_instrument: '{"instruments":[[]]}',
  api_page_empty_instrument: '{"instruments":[{}]}',
  api_page_number_id: '{"instruments":[{"id":5}]}',
  api_page_object_id: '{"instruments":[{"id":{}}]}',
  api_page_lone_surrogate_id: `{"instruments":[{"id":"\\ud800",${INSTRUMENT}}]}`,
  api_page_proto_id: `{"instruments":[{"id":"__proto__",${INSTRUMENT}}]}`,
  api_page_control_id: `{"instruments":[{"id":"a\\u0000\\r\\nb",${INSTRUMENT}}]}`,
  api_page_repeated_id: `{"instruments":[{"id":"A",${INSTRUMENT}},{"id":"A",${INSTRUMENT}}]}`,
  api_page_repeated_list: `{"instruments":[],"instruments":[{"id":"A",${INSTRUMENT}}]}`,
  api_page_repeated_token: '{"instruments":[],"nextPageToken":"a","nextPageToken":"b"}',
  api_page_escaped_list: `{"\\u0069nstruments":[{"id":"A",${INSTRUMENT}}]}`,
  api_page_object_list: '{"instruments":{"0":{"id":"A"},"length":1}}',
  api_page_no_list: '{"nextPageToken":"x"}',
  api_page_number_token: '{"instruments":[],"nextPageToken":5}',
  api_page_object_token: '{"instruments":[],"nextPageToken":{}}',
  api_page_null_token: '{"instruments":[],"nextPageToken":null}',
  api_page_empty_token: '{"instruments":[],"nextPageToken":""}',
  api_page_lone_surrogate_token: '{"instruments":[],"nextPageToken":"\\udc00"}',
  api_page_control_token: '{"instruments":[],"nextPageToken":"\\u0000\\r\\n"}',
  api_page_long_token: `{"instruments":[],"nextPageToken":"${"t".repeat(20_000)}"}`,
  api_page_deep_instrument: `{"instruments":[{"id":"A",${INSTRUMENT},"x":${"[".repeat(DEEP)}${"]".repeat(DEEP)}}]}`,
  api_instrument: `{"id":"A",${INSTRUMENT}}`,
  api_instrument_with_admin: `{"admin":"x","id":"A",${INSTRUMENT},"admin":null,"\\u0061dmin":{"admin":1}}`,
  api_instrument_with_many_admins: `{${'"admin":1,'.repeat(2_000)}"id":"A",${INSTRUMENT}}`,
  api_instrument_null_names: '{"id":"A","name":null,"symbol":null,"decimals":null,"supportedApis":null}',
  api_info_null_admin: '{"adminId":null,"supportedApis":null}',
  api_info_number_admin: '{"adminId":5,"supportedApis":{}}',
  api_info_odd_apis: '{"adminId":"x","supportedApis":{"a":"1","b":null,"c":1e999,"__proto__":1,"d":[]}}',
  api_context_null_data: '{"choiceContextData":null,"disclosedContracts":null}',
  api_context_null_contract: '{"choiceContextData":{},"disclosedContracts":[null]}',
  api_factory_null_context: '{"factoryId":null,"transferKind":null,"choiceContext":null}',
  api_error_object: '{"error":"No such thing"}',
  api_error_null: '{"error":null}',
  api_error_nested: '{"error":{"error":"x"}}',
  api_request_null_arguments: '{"choiceArguments":null}',
  api_request_list_meta: '{"meta":[],"excludeDebugFields":0}',
  api_request_deep_arguments: `{"choiceArguments":{"x":${"[".repeat(DEEP)}${"]".repeat(DEEP)}}}`,
  api_request_odd_admins:
    '{"choiceArguments":{"expectedAdmin":{"x":1},"transfer":{"instrumentId":{"admin":"\\ud800"}}}}',
};

function casesOf(table: Table, isJson: boolean | undefined): JsonCase[] {
  return Object.entries(table).map(([name, text]) => ({
    name,
    isJson,
    bytes: typeof text === "string" ? Buffer.from(text) : Buffer.from(text),
  }));
}

/** Every case, by the name of its file in the suites where it is from one. */
export const JSON_CASES: readonly JsonCase[] = [
  ...casesOf(VALID, true),
  ...casesOf(INVALID, false),
  ...casesOf(OPEN, undefined),
  ...casesOf(OF_THE_API, true),
];
